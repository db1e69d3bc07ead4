// Links, addresses and routes of the router's namespace. Every function reads what is there first, so that a fabric
// that was started again moves nothing.

import type { Port } from "../cloud.ts";
import { attempt, run } from "../command.ts";
import { bridge, extraRoutes, routerAddresses, tap, type World } from "./world.ts";

/** The namespace that is Neutron's router, its bridges and its filters. */
export const ROUTER = "ipo-router";

/** Routes of ours carry this protocol number, so that they are told from the kernel's. */
const ROUTE_PROTOCOL = "77";

export interface Link {
  readonly ifname: string;
  readonly ifalias?: string;
  readonly addr_info: readonly {
    readonly family: string;
    readonly local: string;
    readonly prefixlen: number;
  }[];
}

/** A node that can carry NICs: a process in its network namespace, and that namespace's identity. */
export interface NodeAt {
  readonly pid: number;
  readonly inode: number;
}

/** Makes the namespace, with forwarding on and bridged frames shown to the inet family. */
export async function makeRouter(): Promise<void> {
  const names = (await run(["ip", "netns", "list"])).split("\n").map((line) => line.split(" ")[0]);
  if (!names.includes(ROUTER)) await run(["ip", "netns", "add", ROUTER]);
  await run(["ip", "-n", ROUTER, "link", "set", "lo", "up"]);
  const settings = [
    "net.ipv4.ip_forward=1",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv4.conf.all.send_redirects=0",
    "net.ipv4.conf.default.send_redirects=0",
    "net.bridge.bridge-nf-call-iptables=1",
    "net.ipv6.conf.all.disable_ipv6=1",
    "net.ipv6.conf.default.disable_ipv6=1",
  ];
  await run(["sysctl", "-qw", ...settings], { in: `ns:${ROUTER}` });
}

/** The links with their aliases and addresses; iproute2 shows the first in one listing, the second in another. */
export async function readLinks(): Promise<Link[]> {
  const links: Link[] = JSON.parse(await run(["ip", "-n", ROUTER, "-j", "link"]));
  const held: Link[] = JSON.parse(await run(["ip", "-n", ROUTER, "-j", "addr"]));
  const addresses = new Map(held.map((link) => [link.ifname, link.addr_info]));
  return links.map((link) => ({ ...link, addr_info: addresses.get(link.ifname) ?? [] }));
}

/** The network namespace of a node now, undefined while the node is down. */
export async function findNode(pids: string, node: string): Promise<NodeAt | undefined> {
  try {
    const pid = parseInt(await Deno.readTextFile(`${pids}/${node}.init`));
    const { ino } = await Deno.stat(`/proc/${pid}/ns/net`);
    return ino === null ? undefined : { pid, inode: ino };
  } catch {
    return undefined;
  }
}

/** Runs `ip -batch` in the router's namespace; a line that fails is reported and the others go on. */
async function batch(lines: readonly string[], log: (text: string) => void): Promise<void> {
  if (lines.length === 0) return;
  for (const line of lines) log(line);
  const { code, stderr } = await attempt(["ip", "-n", ROUTER, "-force", "-batch", "-"], {
    input: lines.join("\n"),
  });
  if (code !== 0) log(`refused: ${stderr.trim()}`);
}

/** Bridges, the router's addresses, and its extra routes. */
export async function applyRouter(
  world: World,
  links: readonly Link[],
  log: (text: string) => void,
): Promise<void> {
  const lines: string[] = [];
  const here = new Set(links.map((link) => link.ifname));
  for (const network of world.networks) {
    const name = bridge(network);
    if (here.has(name)) continue;
    here.add(name);
    lines.push(`link add ${name} type bridge`, `link set ${name} mtu ${network.mtu} up`);
  }
  const bridges = new Set(world.networks.map(bridge));
  for (const name of here) if (name.startsWith("br-") && !bridges.has(name)) lines.push(`link del ${name}`);
  const wanted = new Set(routerAddresses(world));
  const held = new Set(
    links.filter((link) => bridges.has(link.ifname)).flatMap((link) =>
      link.addr_info.filter((each) => each.family === "inet").map((each) =>
        `${link.ifname} ${each.local}/${each.prefixlen}`
      )
    ),
  );
  for (const each of wanted.difference(held)) {
    lines.push(`addr add ${each.split(" ")[1]} dev ${each.split(" ")[0]}`);
  }
  for (const each of held.difference(wanted)) {
    lines.push(`addr del ${each.split(" ")[1]} dev ${each.split(" ")[0]}`);
  }
  await batch(lines, log);

  const routes: { dst: string; gateway: string }[] = JSON.parse(
    await run(["ip", "-n", ROUTER, "-j", "route", "show", "proto", ROUTE_PROTOCOL]) || "[]",
  );
  // The kernel shows a host route without its length.
  const present = new Set(
    routes.map((each) => `${each.dst.includes("/") ? each.dst : `${each.dst}/32`} ${each.gateway}`),
  );
  const asked = new Set(extraRoutes(world));
  const route = (verb: string, each: string) =>
    `route ${verb} ${each.split(" ")[0]} via ${each.split(" ")[1]} proto ${ROUTE_PROTOCOL}`;
  await batch([
    ...[...present.difference(asked)].map((each) => route("del", each)),
    ...[...asked.difference(present)].map((each) => route("replace", each)),
  ], log);
}

/**
 * Unplugs what should not be there and plugs what is missing. Where a tap leads is kept in its alias: the server and
 * the identity of the node's namespace, so that a port that moved, or a node that came back, is plugged anew. A veth
 * whose far end died with its namespace is gone by itself.
 */
export async function applyTaps(
  world: World,
  plugged: ReadonlyMap<Port, NodeAt>,
  links: readonly Link[],
  log: (text: string) => void,
): Promise<void> {
  const alias = new Map(links.map((link) => [link.ifname, link.ifalias ?? ""]));
  const wanted = new Map([...plugged].map(([port, node]) => [tap(port), `${port.device_id}@${node.inode}`]));
  const leaving = [...alias.keys()].filter((name) =>
    name.startsWith("tap") && wanted.get(name) !== alias.get(name)
  );
  await batch(leaving.map((name) => `link del ${name}`), log);
  for (const [port, node] of plugged) {
    const name = tap(port);
    if (alias.get(name) === wanted.get(name)) continue;
    const network = world.networks.find((each) => each.id === port.network_id);
    if (!network) continue;
    const mtu = ["mtu", String(network.mtu)];
    // Both ends are born where they belong, so that no other namespace ever sees them.
    await run([
      ...["ip", "link", "add", name, "netns", ROUTER, ...mtu, "type", "veth"],
      ...["peer", "name", name, "netns", String(node.pid), ...mtu, "address", port.mac_address],
    ]);
    await run([
      "ip",
      "-n",
      ROUTER,
      "link",
      "set",
      name,
      "alias",
      wanted.get(name)!,
      "master",
      bridge(network),
      "up",
    ]);
    log(`plugged ${name} ${port.mac_address} for ${port.name || port.id}`);
  }
}
