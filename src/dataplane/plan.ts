// Links, addresses, rules and routes of a gateway: pure, what has to be there. apply.ts compares it with the kernel.
import { formatAddress, holds, mergeRanges, type Range, toCidrs } from "./cidr.ts";
import { type Network, remoteRanges, tunnelDevice } from "./network.ts";

/** An XFRM interface. */
export interface PlannedLink {
  readonly name: string;
  readonly ifId: number;
  readonly mtu: number;
}

/** An address of ours, "100.64.0.1/32", on `device`. */
export interface PlannedAddress {
  readonly device: string;
  readonly address: string;
}

/** A policy rule; `from` and `to` are CIDRs or bare addresses as `ip rule` prints them. */
export interface PlannedRule {
  readonly priority: number;
  readonly table: number;
  readonly from?: string;
  readonly to?: string;
}

/** A route; `table` 254 is main. An `unreachable` one has no device. */
export interface PlannedRoute {
  readonly type: "unicast" | "unreachable";
  readonly table: number;
  /** "default" or a CIDR, a host without its /32. */
  readonly to: string;
  readonly device?: string;
  readonly via?: string;
  readonly metric?: number;
}

/** The whole wish, and the MTU of devices that others make. */
export interface Plan {
  readonly links: readonly PlannedLink[];
  readonly addresses: readonly PlannedAddress[];
  readonly rules: readonly PlannedRule[];
  readonly routes: readonly PlannedRoute[];
  readonly mtus: readonly { readonly device: string; readonly mtu: number }[];
}

export const MAIN_TABLE = 254;
/** The table of what has the uplink's address as its source. */
export const UPLINK_TABLE = 100;
const UPLINK_PRIORITY = 100;
/** Before charon's own table 220 and before main. */
const TUNNEL_PRIORITY = 200;
/** Worse than any route that charon or an administrator would set. */
const LAST_METRIC = 9999;
const TUNNEL_TABLES = 10_000;

/** The routing table of a tunnel: off the reserved numbers and off charon's 220. */
export function tunnelTable(ifId: number): number {
  return TUNNEL_TABLES + ifId;
}

/** How `ip` prints a subnet: a host without /32, everything as "default". */
function shown(cidr: string): string {
  return cidr === "0.0.0.0/0" ? "default" : cidr.replace(/\/32$/, "");
}

/** The uplink's own routing: its source leaves by it and never by another device, also when it is gone. */
function uplinkPart({ uplink }: Network): Pick<Plan, "rules" | "routes"> {
  const size = 2 ** (32 - uplink.prefixLength);
  const subnet = toCidrs([subnetOf(uplink.address, size)])[0]!;
  return {
    rules: [{ priority: UPLINK_PRIORITY, from: uplink.address, table: UPLINK_TABLE }],
    routes: [
      { type: "unreachable", table: UPLINK_TABLE, to: "default", metric: LAST_METRIC },
      { type: "unicast", table: UPLINK_TABLE, to: shown(subnet), device: uplink.device },
      { type: "unicast", table: UPLINK_TABLE, to: "default", device: uplink.device, via: uplink.gateway },
    ],
  };
}

function subnetOf(address: string, size: number): Range {
  const value = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const first = value - value % size;
  return { first, last: first + size - 1 };
}

/**
 * Own addresses: the one in the service CIDR, which answers ping, and for libipsec one inside each local subnet, without
 * which charon can't install its route and the CHILD_SA fails with TS_UNACCEPTABLE (kernel_libipsec_ipsec.c). Where none
 * is there the subnet's network address serves: it is no host's.
 */
function ownAddresses(network: Network): PlannedAddress[] {
  const wanted = network.mode === "nat" ? [network.ownAddress] : [];
  if (network.driver === "libipsec") {
    const present = [network.ownAddress, network.uplink.address];
    for (const range of network.tunnels.flatMap((tunnel) => tunnel.local)) {
      const found = [...wanted, ...present].find((address) => holds(range, address));
      const own = found ?? formatAddress(range.first);
      if (own !== network.uplink.address && !wanted.includes(own)) wanted.push(own);
    }
  }
  return wanted.sort().map((address) => ({ device: "lo", address: `${address}/32` }));
}

/** What has to be there for this network. */
export function planOf(network: Network): Plan {
  const uplink = uplinkPart(network);
  const addresses = ownAddresses(network);
  if (network.driver === "libipsec") {
    return {
      links: [],
      addresses,
      rules: uplink.rules,
      // charon's routes stand in its table 220 only while a CHILD_SA does; below them nothing may lead out in clear.
      routes: [
        ...toCidrs(remoteRanges(network)).map((cidr): PlannedRoute => ({
          type: "unreachable",
          table: MAIN_TABLE,
          to: shown(cidr),
          metric: LAST_METRIC,
        })),
        ...uplink.routes,
      ],
      mtus: [{ device: tunnelDevice("libipsec", 0), mtu: network.mtu }],
    };
  }
  const rules: PlannedRule[] = [...uplink.rules];
  const routes: PlannedRoute[] = [...uplink.routes];
  const links: PlannedLink[] = [];
  const tunnels = [...network.tunnels].sort((a, b) => a.ifId - b.ifId);
  for (const [index, { ifId, remote }] of tunnels.entries()) {
    const table = tunnelTable(ifId);
    const name = tunnelDevice("xfrm", ifId);
    links.push({ name, ifId, mtu: network.mtu });
    routes.push({ type: "unreachable", table, to: "default", metric: LAST_METRIC });
    for (const cidr of toCidrs(mergeRanges(remote))) {
      routes.push({ type: "unicast", table, to: shown(cidr), device: name });
      rules.push({ priority: TUNNEL_PRIORITY + index, to: shown(cidr), table });
    }
  }
  return { links, addresses, rules, routes, mtus: [] };
}

/** The subnets of a plan's network that two tunnels share: with libipsec only one of them can have the route. */
export function sharedRemotes(network: Network): string[] {
  const shared = new Set<string>();
  const tunnels = network.tunnels;
  for (const [index, tunnel] of tunnels.entries()) {
    for (const other of tunnels.slice(index + 1)) {
      for (const a of tunnel.remote) {
        for (const b of other.remote) {
          const first = Math.max(a.first, b.first);
          const last = Math.min(a.last, b.last);
          if (first <= last) { for (const cidr of toCidrs([{ first, last }])) shared.add(cidr); }
        }
      }
    }
  }
  return [...shared].sort();
}
