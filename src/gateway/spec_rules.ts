// What can be said of a gateway's spec without asking anybody. Pure.
import { isIPv4 } from "node:net";
import type { IPsecGateway, Reason, TunnelSpec } from "../api/ipsec_gateway.ts";
import type { Node } from "../kube/kinds.ts";
import { contains, covers, overlap, parseCidr } from "../ledger/service_cidr.ts";
import { messageOf } from "./context.ts";
import type { GatewayOptions } from "./options.ts";

export interface SpecProblem {
  readonly reason: Reason;
  readonly message: string;
}

/** What of the cluster's own addresses must stay reachable from a gateway's pod. */
export interface ClusterNetwork {
  readonly nodes: readonly Node[];
  /** Address of the API server as pods see it; undefined outside of a cluster. */
  readonly apiServer: string | undefined;
  /** The operator's service CIDR pools. */
  readonly pools: readonly string[];
}

/** The remote subnets of a tunnel. */
export function remoteOf(tunnel: TunnelSpec): readonly string[] {
  return tunnel.remoteSubnets ?? tunnel.children?.flatMap((child) => child.remoteSubnets) ?? [];
}

/** The local subnets that a tunnel names. */
export function localOf(tunnel: TunnelSpec): readonly string[] {
  return tunnel.localSubnets ?? tunnel.children?.flatMap((child) => child.localSubnets ?? []) ?? [];
}

/** What is wrong with the spec, or undefined. */
export function specProblem(gateway: IPsecGateway, network: ClusterNetwork): SpecProblem | undefined {
  return addressProblem(gateway) ?? peerProblem(gateway) ?? exposureProblem(gateway) ??
    clusterProblem(gateway, network);
}

function invalid(message: string): SpecProblem {
  return { reason: "InvalidSpec", message };
}

/** Addresses that the schema's patterns let through. */
function addressProblem({ spec }: IPsecGateway): SpecProblem | undefined {
  for (const tunnel of spec.tunnels) {
    const { address, sourceCIDRs = [] } = tunnel.peer;
    if (/^[\d.]+$/.test(address) && !isIPv4(address)) {
      return invalid(`Tunnel ${tunnel.name}: peer.address ${address} is no IPv4 address: correct it`);
    }
    for (const cidr of [...remoteOf(tunnel), ...localOf(tunnel), ...sourceCIDRs]) {
      try {
        parseCidr(cidr);
      } catch (error) {
        return invalid(`Tunnel ${tunnel.name}: ${messageOf(error)}`);
      }
    }
  }
  return undefined;
}

/** Peers that strongSwan could not tell apart. */
function peerProblem({ spec }: IPsecGateway): SpecProblem | undefined {
  const peers = new Map<string, string>();
  const keys = new Map<string, { readonly tunnel: string; readonly key: string }>();
  for (const { name, peer, psk, ike } of spec.tunnels) {
    const id = peer.id ?? peer.address;
    const same = `${peer.address.toLowerCase()} ${id}`;
    const other = peers.get(same);
    if (other !== undefined) {
      return {
        reason: "DuplicatePeer",
        message:
          `Tunnels ${other} and ${name} have the same peer ${peer.address} with the identity ${id}: make them children of one tunnel or give them different peer.id`,
      };
    }
    peers.set(same, name);
    // A key is chosen by the peer's identity (IKEv1: also by its address), and by nothing else.
    const key = psk?.key ?? spec.psk.key;
    for (const owner of ike.version === 1 ? [id, peer.address] : [id]) {
      const held = keys.get(owner);
      if (held && held.key !== key) {
        return invalid(
          `Tunnels ${held.tunnel} and ${name} have the peer identity ${owner} and different keys (${held.key}, ${key}): strongSwan chooses a key by the peer's identity; use one key or different peer.id`,
        );
      }
      keys.set(owner, { tunnel: name, key });
    }
  }
  return undefined;
}

function exposureProblem({ spec }: IPsecGateway): SpecProblem | undefined {
  for (const { name, ip } of spec.exposures ?? []) {
    if (ip !== undefined && spec.serviceCIDR !== undefined && !contains(spec.serviceCIDR, ip)) {
      return invalid(`Exposure ${name}: ${ip} is not in spec.serviceCIDR ${spec.serviceCIDR}`);
    }
  }
  const remote = spec.tunnels.flatMap(remoteOf);
  for (const { name, remoteAddress } of spec.reverseExposures ?? []) {
    if (!remote.some((cidr) => contains(cidr, remoteAddress))) {
      return invalid(
        `Reverse exposure ${name}: ${remoteAddress} is in no tunnel's remote subnets (${remote.join(", ")})`,
      );
    }
  }
  return undefined;
}

/** Subnets that would cut the gateway's pod off from the cluster: the fence lets nothing of a partner's subnets pass outside of a tunnel. */
function clusterProblem(
  { spec }: IPsecGateway,
  { nodes, apiServer, pools }: ClusterNetwork,
): SpecProblem | undefined {
  const own: (readonly [cidr: string, what: string])[] = pools.map((pool) => [pool, "the service CIDR pool"]);
  if (apiServer !== undefined && isIPv4(apiServer)) own.push([`${apiServer}/32`, "the API server's address"]);
  for (const { metadata, spec: node, status } of nodes) {
    for (const cidr of node?.podCIDRs ?? []) {
      if (!cidr.includes(":")) own.push([cidr, `the pod network of node ${metadata?.name}`]);
    }
    for (const { type, address } of status?.addresses ?? []) {
      if (type === "InternalIP" && isIPv4(address)) own.push([`${address}/32`, `node ${metadata?.name}`]);
    }
  }
  for (const tunnel of spec.tunnels) {
    for (const cidr of remoteOf(tunnel)) {
      const hit = own.find(([other]) => overlap(cidr, other));
      if (hit) {
        return invalid(
          `Tunnel ${tunnel.name}: the remote subnet ${cidr} overlaps ${hit[1]} (${
            hit[0]
          }), and the gateway's pod could not reach it any more: name smaller subnets`,
        );
      }
    }
  }
  return undefined;
}

/** What the operator does not let a tenant do. */
export function notAllowed({ spec }: IPsecGateway, options: GatewayOptions): SpecProblem | undefined {
  const refused = (message: string): SpecProblem => ({ reason: "NotAllowed", message });
  if (spec.images && !options.allowImageOverride) {
    return refused(
      "spec.images is not allowed here: remove it, or have the operator run with --allow-image-override",
    );
  }
  if (spec.openstack?.cloudSecretRef) return undefined;
  const { networkID, subnetID, externalNetworkID, cloud } = options.openstack;
  const { allowedNetworkIDs, allowedFloatingIPs, allowedRoutedCIDRs } = options.openstack;
  const own = "bring your own in spec.openstack.cloudSecretRef, or ask for it in the operator's";
  const networks = [networkID, externalNetworkID, ...allowedNetworkIDs];
  for (const field of ["networkID", "externalNetworkID"] as const) {
    const wanted = spec.openstack?.[field];
    if (wanted !== undefined && !networks.includes(wanted)) {
      return refused(
        `spec.openstack.${field} ${wanted} is not allowed with the operator's credentials: ${own} --allowed-network-ids`,
      );
    }
  }
  const subnet = spec.openstack?.subnetID;
  if (subnet !== undefined && subnet !== subnetID && spec.openstack?.networkID === undefined) {
    return refused(
      `spec.openstack.subnetID ${subnet} without networkID is not allowed with the operator's credentials: name its network too`,
    );
  }
  if (spec.openstack?.cloud !== undefined && spec.openstack.cloud !== cloud) {
    return refused(
      `spec.openstack.cloud ${spec.openstack.cloud} is not allowed without spec.openstack.cloudSecretRef: the operator's cloud is used`,
    );
  }
  const pinned = spec.endpoint?.floatingIP;
  if (pinned !== undefined && !allowedFloatingIPs.includes(pinned)) {
    return refused(
      `spec.endpoint.floatingIP ${pinned} is not allowed with the operator's credentials: ${own} --allowed-floating-ips`,
    );
  }
  if (spec.mode !== "routed") return undefined;
  // These become routes on a router that others share.
  for (const cidr of spec.tunnels.flatMap(remoteOf)) {
    if (!allowedRoutedCIDRs.some((allowed) => covers(allowed, cidr))) {
      return refused(
        `mode routed with the remote subnet ${cidr} is not allowed with the operator's credentials: ${own} --allowed-routed-cidrs`,
      );
    }
  }
  return undefined;
}
