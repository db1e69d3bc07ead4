// The filter and NAT of the router's namespace, written from the world.
//
// Groups are stateful, and the bridge family has no conntrack on kernels without NF_CONNTRACK_BRIDGE. So the bridge
// table only ties MAC and addresses to the port and marks the frame with the port's number; br_netfilter lifts bridged
// frames into inet forward as well, where the mark names the sending port for bridged and routed packets alike. The
// receiving port is known there by address only (a routed packet has not met its bridge port yet).

import type { Port, Rule, SecurityGroup } from "../cloud.ts";
import { addresses, macs, pairs, sourceNats, tap, type World } from "./world.ts";

export interface Rules {
  /** For `nft -f -`; both tables in one transaction. */
  readonly text: string;
  /** Each filtered port's addresses and the lines of its groups. */
  readonly ports: ReadonlyMap<
    string,
    { readonly addresses: readonly string[]; readonly lines: readonly string[] }
  >;
  /** Floating IP → fixed address. */
  readonly floating: ReadonlyMap<string, string>;
}

/** Protocols by number: Neutron takes both and keeps what it was given. */
const PROTOCOLS: Readonly<Record<string, string>> = { "1": "icmp", "6": "tcp", "17": "udp" };

/** One security-group rule as an nft match; undefined when it can match nothing here (IPv6, an empty remote group). */
export function match(rule: Rule, ports: readonly Port[]): string | undefined {
  if (rule.ethertype !== "IPv4") return undefined;
  const far = rule.direction === "ingress" ? "saddr" : "daddr";
  const parts: string[] = [];
  if (rule.remote_ip_prefix) parts.push(`ip ${far} ${rule.remote_ip_prefix}`);
  else if (rule.remote_group_id) {
    const members = ports.filter((port) => port.security_groups.includes(rule.remote_group_id ?? ""));
    const remote = [...new Set(members.flatMap(addresses))].sort();
    if (remote.length === 0) return undefined;
    parts.push(`ip ${far} { ${remote.join(", ")} }`);
  }
  const protocol = PROTOCOLS[rule.protocol ?? ""] ?? rule.protocol;
  const { port_range_min: low, port_range_max: high } = rule;
  if (protocol === "tcp" || protocol === "udp") {
    parts.push(low === null ? `meta l4proto ${protocol}` : `${protocol} dport ${low}-${high ?? low}`);
  } else if (protocol === "icmp") {
    parts.push("ip protocol icmp");
    if (low !== null) parts.push(`icmp type ${low}`);
    if (high !== null) parts.push(`icmp code ${high}`);
  } else if (protocol) parts.push(`ip protocol ${protocol}`);
  return parts.join(" ");
}

/** Both directions of a port's groups. */
function groupLines(port: Port, groups: readonly SecurityGroup[], ports: readonly Port[]) {
  const lines = { ingress: new Set<string>(), egress: new Set<string>() };
  for (const group of groups) {
    if (!port.security_groups.includes(group.id)) continue;
    for (const rule of group.security_group_rules) {
      const text = match(rule, ports);
      if (text !== undefined) lines[rule.direction].add(text);
    }
  }
  return { ingress: [...lines.ingress].sort(), egress: [...lines.egress].sort() };
}

const indent = (lines: readonly string[]) => lines.map((line) => `    ${line}\n`).join("");

/** The whole rule set. `plugged` are the ports that have, or are about to have, a NIC in a node. */
export function writeRules(world: World, plugged: readonly Port[]): Rules {
  const ports = new Map<string, { addresses: string[]; lines: string[] }>();
  const inet: string[] = [];
  const ethernet: string[] = [];
  const dispatch: string[] = [];
  const senders: string[] = [];
  const receivers: string[] = [];
  const pairReceivers: string[] = [];

  const sorted = plugged.toSorted((a, b) => a.id < b.id ? -1 : 1);
  for (const [index, port] of sorted.entries()) {
    const name = tap(port);
    const mark = index + 1;
    dispatch.push(`"${name}" : goto from-${name}`);
    if (!port.port_security_enabled) {
      ethernet.push(`  chain from-${name} {\n    accept\n  }\n`);
      continue;
    }
    const own = addresses(port);
    const sources = [...own, ...pairs(port)];
    ethernet.push(
      `  chain from-${name} {\n` + indent([
        `ether saddr != { ${macs(port).join(", ")} } counter drop`,
        `meta mark set ${mark}`,
        "arp saddr ip 0.0.0.0 accept",
        ...sources.map((source) => `arp saddr ip ${source} accept`),
        ...sources.map((source) => `ip saddr ${source} accept`),
        "counter drop",
      ]) + "  }\n",
    );
    const { ingress, egress } = groupLines(port, world.groups, world.ports);
    inet.push(
      `  chain out-${name} {\n${
        indent([...egress.map((line) => `${line} return`.trim()), "counter drop"])
      }  }\n`,
      `  chain in-${name} {\n${
        indent([...ingress.map((line) => `${line} accept`.trim()), "counter drop"])
      }  }\n`,
    );
    senders.push(`${mark} : jump out-${name}`);
    for (const address of own) receivers.push(`ip daddr ${address} goto in-${name}`);
    for (const pair of pairs(port)) pairReceivers.push(`ip daddr ${pair} goto in-${name}`);
    ports.set(port.id, {
      addresses: sources,
      lines: [...egress.map((line) => `egress ${line}`), ...ingress.map((line) => `ingress ${line}`)],
    });
  }

  const floating = new Map<string, string>();
  for (const fip of world.floatingips.toSorted((a, b) => a.id < b.id ? -1 : 1)) {
    if (fip.fixed_ip_address) floating.set(fip.floating_ip_address, fip.fixed_ip_address);
  }
  // `oifname br-ext`: between ports of one network nothing is translated.
  const post = [
    ...[...floating].map(([fip, fixed]) => `oifname "br-ext" ip saddr ${fixed} snat ip to ${fip}`),
    ...sourceNats(world).map(({ cidr, address }) =>
      `oifname "br-ext" ip saddr ${cidr} snat ip to ${address}`
    ),
  ];
  const text = `table inet lab_fabric
delete table inet lab_fabric
table inet lab_fabric {
${inet.join("")}  chain pre {
    type nat hook prerouting priority dstnat;
${indent([...floating].map(([fip, fixed]) => `ip daddr ${fip} dnat ip to ${fixed}`))}  }
  chain post {
    type nat hook postrouting priority srcnat;
${indent(post)}  }
  chain groups {
    type filter hook forward priority filter;
    ct state established,related accept
    ct state invalid counter drop
${indent(senders.length ? [`meta mark vmap { ${senders.join(", ")} }`] : [])}${
    indent([...receivers, ...pairReceivers])
  }  }
}
table bridge lab_fabric
delete table bridge lab_fabric
table bridge lab_fabric {
${ethernet.join("")}  chain pre {
    type filter hook prerouting priority -300;
${indent(dispatch.length ? [`iifname vmap { ${dispatch.join(", ")} }`] : [])}    iifname "tap*" counter drop
  }
}
`;
  return { text, ports, floating };
}

/**
 * The flows that replacing `before` by `after` leaves running though they are no longer allowed, or go by another
 * address now: arguments of `conntrack -D`. A rule that was only added ends no flow.
 */
export function staleFlows(before: Rules, after: Rules): string[][] {
  const addressed = new Set<string>();
  const floating = new Set<string>();
  for (const [id, old] of before.ports) {
    const now = after.ports.get(id);
    const lost = !now || old.lines.some((line) => !now.lines.includes(line));
    const moved = !now || old.addresses.some((address) => !now.addresses.includes(address));
    if (lost || moved) { for (const address of old.addresses) addressed.add(address); }
  }
  for (const fip of new Set([...before.floating.keys(), ...after.floating.keys()])) {
    const [was, is] = [before.floating.get(fip), after.floating.get(fip)];
    if (was === is) continue;
    floating.add(fip);
    for (const fixed of [was, is]) if (fixed) addressed.add(fixed);
  }
  return [
    ...[...floating].sort().map((fip) => ["-d", fip]),
    // The source of either direction, and the destination of a flow that met no NAT.
    ...[...addressed].sort().flatMap((address) => [["-s", address], ["-r", address], ["-d", address]]),
  ];
}
