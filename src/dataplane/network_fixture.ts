// Builders for this folder's tests.
import { parseRange, type Range } from "./cidr.ts";
import type { Network, TunnelNetwork } from "./network.ts";

/** The ranges of these subnets. */
export function ranges(...cidrs: string[]): Range[] {
  return cidrs.map((cidr) => {
    const range = parseRange(cidr);
    if (!range) throw new TypeError(`Cannot build a range from ${JSON.stringify(cidr)}`);
    return range;
  });
}

/** A tunnel like the lab's partner. */
export function tunnelNetwork(changes: Partial<TunnelNetwork> = {}): TunnelNetwork {
  return {
    name: "partner",
    ifId: 1042,
    local: ranges("100.64.0.0/24"),
    remote: ranges("192.168.77.0/24"),
    espProposals: ["aes256gcm16"],
    ...changes,
  };
}

/** A gateway in nat mode with one tunnel. */
export function network(changes: Partial<Network> = {}): Network {
  return {
    driver: "libipsec",
    mode: "nat",
    uplink: { device: "net1", address: "10.0.0.7", prefixLength: 24, gateway: "10.0.0.1", mtu: 1450 },
    ownAddress: "100.64.0.1",
    serviceRange: ranges("100.64.0.0/24")[0]!,
    tunnels: [tunnelNetwork()],
    mtu: 1386,
    mss: 1346,
    ...changes,
  };
}
