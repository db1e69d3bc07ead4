// What the data plane has to make true: the words that fence, plan and strongswan.conf share.
import { mergeRanges, type Range } from "./cidr.ts";

/** Kernel ESP with XFRM interfaces, or charon's own ESP through a TUN device. */
export type Driver = "xfrm" | "libipsec";

/** One tunnel, as far as packets are concerned. */
export interface TunnelNetwork {
  readonly name: string;
  /** The if_id of its SAs; its interface is `ipsec<ifId>`. */
  readonly ifId: number;
  /** Both sides of its traffic selectors. */
  readonly local: readonly Range[];
  readonly remote: readonly Range[];
  /** `esp_proposals` of its children, for the MTU. */
  readonly espProposals: readonly string[];
}

/** Everything that a network namespace with a charon in it has to look like. */
export interface Network {
  readonly driver: Driver;
  /** Whether only translated connections pass (nat), or what lies between the tunnels' subnets (routed). */
  readonly mode: "nat" | "routed";
  /** The device that IKE and ESP use, and nothing else does. */
  readonly uplink: {
    readonly device: string;
    readonly address: string;
    readonly prefixLength: number;
    readonly gateway: string;
    readonly mtu: number;
  };
  /** The address of ours that partners may ping: the one in the service CIDR. */
  readonly ownAddress: string;
  /** The service CIDR: a source that never leaves but by a tunnel (nat mode). */
  readonly serviceRange: Range;
  readonly tunnels: readonly TunnelNetwork[];
  /** Bytes inside a tunnel. */
  readonly mtu: number;
  readonly mss: number;
}

/** Name of a tunnel's device. libipsec has a single one for all. */
export function tunnelDevice(driver: Driver, ifId: number): string {
  return driver === "xfrm" ? `ipsec${ifId}` : "ipsec0";
}

/** Every remote address, merged. */
export function remoteRanges(network: Network): Range[] {
  return mergeRanges(network.tunnels.flatMap((tunnel) => tunnel.remote));
}

/** Every local address, merged. */
export function localRanges(network: Network): Range[] {
  return mergeRanges(network.tunnels.flatMap((tunnel) => tunnel.local));
}
