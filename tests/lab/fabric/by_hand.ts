// One gateway's objects made by hand, and a host in its place, for the tests that prove the fabric without an operator.

import {
  type Cloud,
  connectAs,
  type FloatingIP,
  type Port,
  type Rule,
  type SecurityGroup,
} from "../cloud.ts";
import { attempt, nodePlace, placed, run, until } from "../command.ts";
import { ROUTER } from "./wires.ts";
import { tap } from "./world.ts";

export const PEER_ADDRESS = "203.0.113.251";
const PEER = "ipo-ftpeer";
const HOST = "ipo-ftvm";
const ECHO_PORTS = [500, 4500, 4501];

export interface ByHand extends AsyncDisposable {
  readonly cloud: Cloud;
  readonly group: SecurityGroup;
  /** Ids of the ingress rules by port number. */
  readonly rules: Readonly<Record<number, string>>;
  readonly port: Port;
  /** The port's fixed address. */
  readonly address: string;
  readonly fip: FloatingIP;
  /** Adds an ingress rule for the peer. */
  allow(fields: Partial<Rule>): Promise<Rule>;
  /** Attaches the port to a node's server, and gives its NIC to the host when it is there. */
  attach(node: string): Promise<void>;
  /** Asks Nova for a detach and waits until Neutron says it is done. */
  detach(): Promise<void>;
  /** Waits until the NIC is in the node and moves it into the host, with the port's address, as CNI would. */
  takeNic(node: string): Promise<void>;
  /** Deletes the host with its NIC, as the death of a pod's namespace without CNI's DEL would. */
  dropHost(): Promise<void>;
}

async function makePeer(): Promise<void> {
  await run(["ip", "netns", "add", PEER]);
  await run([
    "ip",
    "link",
    "add",
    "ext-ftpeer",
    "netns",
    ROUTER,
    "type",
    "veth",
    "peer",
    "name",
    "wan",
    "netns",
    PEER,
  ]);
  await run(["ip", "-n", ROUTER, "link", "set", "ext-ftpeer", "master", "br-ext", "up"]);
  // A second address: no rule names it. The default route leads to the router, as the partner's does.
  for (const address of [`${PEER_ADDRESS}/24`, "203.0.113.252/24"]) {
    await run(["ip", "-n", PEER, "addr", "add", address, "dev", "wan"]);
  }
  await run(["ip", "-n", PEER, "link", "set", "wan", "up"]);
  await run(["ip", "-n", PEER, "link", "set", "lo", "up"]);
  await run(["ip", "-n", PEER, "route", "add", "default", "via", "203.0.113.1"]);
}

/** The host's echo services, one socat per port; each answers every datagram by itself and keeps no state. */
function startEchoes(): Deno.ChildProcess[] {
  return ECHO_PORTS.map((port) => {
    const argv = placed(["socat", `UDP-RECVFROM:${port},fork`, "EXEC:/bin/cat"], `ns:${HOST}`);
    return new Deno.Command(argv[0]!, { args: argv.slice(1), stdin: "null", stdout: "null", stderr: "null" })
      .spawn();
  });
}

async function end(children: Deno.ChildProcess[]): Promise<void> {
  for (const child of children.splice(0)) {
    try {
      child.kill("SIGKILL");
    } catch {
      // Ended already.
    }
    await child.status;
  }
}

/** Group, rules for UDP 500 and 4500 from the peer, port on node1, floating IP, and the host. Disposing removes all. */
export async function gateway(): Promise<ByHand> {
  const cloud = await connectAs("tenant");
  const undo: (() => Promise<unknown>)[] = [];
  const dispose = async () => {
    for (const each of undo.splice(0).reverse()) await each();
  };
  try {
    return await build(cloud, undo, dispose);
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function build(
  cloud: Cloud,
  undo: (() => Promise<unknown>)[],
  dispose: () => Promise<void>,
): Promise<ByHand> {
  const [network] = await cloud.list("networks", { name: "tenant-net" });
  const [external] = await cloud.list("networks", { "router:external": "true" });
  if (!network || !external) throw new Error("Cannot build by hand: the seeded networks are missing");
  undo.push(() => attempt(["ip", "netns", "del", PEER]));
  await makePeer();

  const group = await cloud.create("security-groups", { name: "fabric-test" });
  undo.push(() => cloud.remove("security-groups", group.id));
  const allow = (fields: Partial<Rule>) =>
    cloud.create("security-group-rules", {
      security_group_id: group.id,
      direction: "ingress",
      ethertype: "IPv4",
      remote_ip_prefix: `${PEER_ADDRESS}/32`,
      ...fields,
    });
  const rules: Record<number, string> = {};
  for (const number of [500, 4500]) {
    rules[number] = (await allow({ protocol: "udp", port_range_min: number, port_range_max: number })).id;
  }
  const port = await cloud.create("ports", {
    network_id: network.id,
    name: "fabric-test",
    security_groups: [group.id],
  });
  undo.push(() => cloud.remove("ports", port.id));
  const address = port.fixed_ips[0]!.ip_address;
  const device = tap(port);
  const echoes: Deno.ChildProcess[] = [];

  const dropHost = async () => {
    await end(echoes);
    await attempt(["ip", "netns", "del", HOST]);
  };
  undo.push(dropHost);
  const takeNic = async (node: string) => {
    const place = await nodePlace(node);
    const show = ["ip", "link", "show", device];
    await until(
      `${device} is plugged in ${node}`,
      async () => (await attempt(show, { in: place })).code === 0,
    );
    if (!(await run(["ip", "netns", "list"])).split("\n").some((line) => line.split(" ")[0] === HOST)) {
      await run(["ip", "netns", "add", HOST]);
      await run(["ip", "-n", HOST, "link", "set", "lo", "up"]);
    }
    await run(["ip", "link", "set", device, "netns", HOST], { in: place });
    await run(["ip", "-n", HOST, "link", "set", device, "name", "net1"]);
    await run(["ip", "-n", HOST, "addr", "add", `${address}/24`, "dev", "net1"]);
    await run(["ip", "-n", HOST, "link", "set", "net1", "up"]);
    await run(["ip", "-n", HOST, "route", "add", "default", "via", "10.0.0.1"]);
    if (echoes.length === 0) echoes.push(...startEchoes());
  };
  const attach = async (node: string) => {
    await cloud.attach((await cloud.server(node.replace("node", "node-"))).id, port.id);
    await takeNic(node);
  };
  const detach = async () => {
    const { device_id } = await cloud.get("ports", port.id);
    if (device_id) await cloud.detach(device_id, port.id);
    await until("the port is on no server", async () => (await cloud.get("ports", port.id)).device_id === "");
  };
  undo.push(detach);
  await attach("node1");

  const fip = await cloud.create("floatingips", { floating_network_id: external.id, port_id: port.id });
  undo.push(() => cloud.remove("floatingips", fip.id));
  return {
    cloud,
    group,
    rules,
    port,
    address,
    fip,
    allow,
    attach,
    detach,
    takeNic,
    dropHost,
    [Symbol.asyncDispose]: dispose,
  };
}

export interface Flow extends AsyncDisposable {
  /** Waits for an answer to a datagram sent from now on; ms until then. Throws after `limitMs`. */
  answered(limitMs: number): Promise<number>;
  /** Waits until nothing was answered for 2 s; ms from the call to the last answer. Throws after `limitMs` and 2 s. */
  silence(limitMs: number): Promise<number>;
}

/**
 * Ten datagrams a second from the peer's port `port` to the same port of a floating IP: one flow that conntrack knows
 * for as long as the test runs.
 */
export async function startFlow(to: string, port: number): Promise<Flow> {
  const quietMs = 2000;
  // Not a connected socket: an ICMP error must not end it.
  const argv = placed(
    ["socat", "-", `UDP-DATAGRAM:${to}:${port},bind=${PEER_ADDRESS}:${port}`],
    `ns:${PEER}`,
  );
  const child = new Deno.Command(argv[0]!, {
    args: argv.slice(1),
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  })
    .spawn();
  const writer = child.stdin.getWriter();
  const sentAt: number[] = [];
  let lastAnswer = 0;
  let lastNumber = -1;
  const timer = setInterval(() => {
    writer.write(new TextEncoder().encode(`${sentAt.length}\n`)).catch(() => {});
    sentAt.push(performance.now());
  }, 100);
  const reading = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      for (const line of text.split("\n")) {
        if (line === "") continue;
        lastAnswer = performance.now();
        lastNumber = Math.max(lastNumber, Number(line));
      }
    }
  })();
  const flow: Flow = {
    async answered(limitMs) {
      const started = performance.now();
      const first = sentAt.length;
      await until(`port ${port} is answered`, () => lastNumber >= first, {
        timeoutMs: limitMs,
        intervalMs: 20,
      });
      return lastAnswer - started;
    },
    async silence(limitMs) {
      const started = performance.now();
      await until(
        `port ${port} is silent`,
        () => performance.now() - Math.max(lastAnswer, started) >= quietMs,
        {
          timeoutMs: limitMs + quietMs,
          intervalMs: 20,
        },
      );
      return Math.max(0, lastAnswer - started);
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await writer.close().catch(() => {});
      await end([child]);
      await reading;
    },
  };
  return await Promise.resolve(flow);
}
