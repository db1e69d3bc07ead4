// Which rules a security group has, and which it should have. Pure.
import type { SecurityGroupRule } from "../neutron.ts";

/** A rule that we want. Without protocol: all of them; without prefix: from or to anywhere. */
export interface Rule {
  direction: "ingress" | "egress";
  ethertype: "IPv4" | "IPv6";
  protocol?: string;
  portMin?: number;
  portMax?: number;
  remoteIPPrefix?: string;
}

export interface RulePlan {
  add: Rule[];
  /** Ids of rules that are foreign, or a second one of the same. */
  remove: string[];
}

/** Everything may leave: what Neutron itself gives a new group, and what IKE towards the peer needs. */
export const DEFAULT_EGRESS: readonly Rule[] = [
  { direction: "egress", ethertype: "IPv4" },
  { direction: "egress", ethertype: "IPv6" },
];

/** Neutron takes a protocol by name or number, and keeps what it was given. */
const PROTOCOLS: Readonly<Record<string, string>> = {
  "1": "icmp",
  "6": "tcp",
  "17": "udp",
  "50": "esp",
  "51": "ah",
  "58": "ipv6-icmp",
  "icmpv6": "ipv6-icmp",
};

/**
 * What to change so that exactly `wanted` and the default egress are there, each once. Of identical rules the one
 * with the lowest id stays.
 */
export function planRules(actual: readonly SecurityGroupRule[], wanted: readonly Rule[]): RulePlan {
  const missing = new Map([...DEFAULT_EGRESS, ...wanted].map((rule) => [keyOf(rule), rule]));
  const allowed = new Set(missing.keys());
  const remove: string[] = [];
  const seen = new Set<string>();
  for (const rule of actual.toSorted((a, b) => a.id.localeCompare(b.id))) {
    const key = actualKey(rule);
    if (!allowed.has(key) || seen.has(key)) remove.push(rule.id);
    seen.add(key);
    missing.delete(key);
  }
  return {
    add: [...missing.entries()].sort(([a], [b]) => a.localeCompare(b)).map(([, rule]) => rule),
    remove,
  };
}

/** The body of a rule's create. No description: some clouds refuse it, and it does not tell two rules apart. */
export function ruleBody(groupID: string, rule: Rule): Record<string, unknown> {
  return {
    security_group_id: groupID,
    direction: rule.direction,
    ethertype: rule.ethertype,
    ...(rule.protocol === undefined ? {} : { protocol: rule.protocol }),
    ...(rule.portMin === undefined ? {} : { port_range_min: rule.portMin }),
    ...(rule.portMax === undefined ? {} : { port_range_max: rule.portMax }),
    ...(rule.remoteIPPrefix === undefined ? {} : { remote_ip_prefix: rule.remoteIPPrefix }),
  };
}

/** For errors: "ingress udp 500 from 192.0.2.1/32". */
export function ruleText(rule: Rule): string {
  const ports = rule.portMin === undefined
    ? ""
    : ` ${rule.portMin}${rule.portMax === rule.portMin ? "" : `-${rule.portMax}`}`;
  const remote = rule.remoteIPPrefix === undefined
    ? ""
    : ` ${rule.direction === "ingress" ? "from" : "to"} ${rule.remoteIPPrefix}`;
  return `${rule.direction} ${rule.protocol ?? "any"}${ports}${remote}`;
}

function keyOf(rule: Rule): string {
  const protocol = rule.protocol?.toLowerCase() ?? "";
  return [
    rule.direction,
    rule.ethertype.toLowerCase(),
    PROTOCOLS[protocol] ?? protocol,
    rule.portMin ?? "",
    rule.portMax ?? "",
    prefixKey(rule.remoteIPPrefix ?? ""),
  ].join(" ");
}

function actualKey(rule: SecurityGroupRule): string {
  // A rule towards a group or an address group is never one of ours.
  if (rule.remote_group_id || rule.remote_address_group_id) return `group ${rule.id}`;
  const protocol = String(rule.protocol ?? "");
  return keyOf({
    direction: rule.direction,
    ethertype: rule.ethertype === "IPv6" ? "IPv6" : "IPv4",
    ...(protocol === "" || protocol === "any" ? {} : { protocol }),
    ...(rule.port_range_min == null ? {} : { portMin: rule.port_range_min }),
    ...(rule.port_range_max == null ? {} : { portMax: rule.port_range_max }),
    ...(rule.remote_ip_prefix == null ? {} : { remoteIPPrefix: rule.remote_ip_prefix }),
  });
}

/**
 * A prefix as text that is equal for equal prefixes; "anywhere" is the same as none. Host bits stay: Neutron keeps
 * them, and tells 192.0.2.5/24 from 192.0.2.0/24. IPv6 it writes in its short form, whatever it was given.
 */
function prefixKey(prefix: string): string {
  const [address = "", bits] = prefix.toLowerCase().split("/");
  if (address === "" || bits === "0") return "";
  if (!address.includes(":")) return `${address}/${bits ?? "32"}`;
  return `${URL.parse(`http://[${address}]`)?.hostname ?? address}/${bits ?? "128"}`;
}
