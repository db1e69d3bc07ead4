// What Neutron and Nova say should be plugged where.

import type { Cloud, FloatingIP, Network, Port, Router, SecurityGroup, Server, Subnet } from "../cloud.ts";

export interface World {
  readonly networks: readonly Network[];
  readonly subnets: readonly Subnet[];
  readonly routers: readonly Router[];
  readonly servers: readonly Server[];
  readonly ports: readonly Port[];
  readonly floatingips: readonly FloatingIP[];
  readonly groups: readonly SecurityGroup[];
}

/**
 * Reads the world. With `known`, networks, subnets and servers are read again only when a port names one that is not
 * known: they hardly change, and each call costs Neutron (or Nova) and Keystone some 30 ms.
 */
export async function readWorld(cloud: Cloud, known?: World): Promise<World> {
  const [ports, floatingips, groups, routers] = await Promise.all([
    cloud.list("ports"),
    cloud.list("floatingips"),
    cloud.list("security-groups"),
    cloud.list("routers"),
  ]);
  const changing = { ports, groups, routers, floatingips: floatingips.filter((fip) => fip.port_id) };
  const complete = known !== undefined &&
    ports.every((port) =>
      known.networks.some((network) => network.id === port.network_id) &&
      (!isServers(port) || known.servers.some((server) => server.id === port.device_id))
    );
  if (complete) return { ...known, ...changing };
  const [networks, subnets, servers] = await Promise.all([
    cloud.list("networks"),
    cloud.list("subnets"),
    cloud.servers(),
  ]);
  return { networks, subnets, servers, ...changing };
}

function isServers(port: Port): boolean {
  return port.device_owner.startsWith("compute:");
}

/** The device of a port, the same in the router's namespace and in the node's. */
export function tap(port: Pick<Port, "id">): string {
  return `tap${port.id.slice(0, 11)}`;
}

/** The bridge of a network. */
export function bridge(network: Network): string {
  return network["router:external"] ? "br-ext" : `br-${network.id.slice(0, 8)}`;
}

const isV4 = (address: string) => address.includes(".");

/** A port's own IPv4 addresses. */
export function addresses(port: Port): string[] {
  return port.fixed_ips.map((fixed) => fixed.ip_address).filter(isV4).sort();
}

/** What a port may send from beside its own addresses: addresses and CIDRs. */
export function pairs(port: Port): string[] {
  return port.allowed_address_pairs.map((pair) => pair.ip_address).filter(isV4).sort();
}

/** The MACs that a port may send from. */
export function macs(port: Port): string[] {
  return [...new Set([port.mac_address, ...port.allowed_address_pairs.map((pair) => pair.mac_address)])]
    .sort();
}

/** The node that carries a server: Nova's `node-1` is Kubernetes' `node1`. Undefined for a port on no server. */
export function nodeOf(port: Port, world: World): string | undefined {
  if (!isServers(port) || !port.admin_state_up) return undefined;
  return world.servers.find((server) => server.id === port.device_id)?.name.replaceAll("-", "");
}

/** The addresses that the router's namespace holds, as `device address/length`. */
export function routerAddresses(world: World): string[] {
  const held = new Set<string>();
  for (const network of world.networks) {
    for (const subnet of world.subnets) {
      if (subnet.network_id !== network.id || subnet.ip_version !== 4 || !subnet.gateway_ip) continue;
      const routed = world.ports.some((port) =>
        port.device_owner === "network:router_interface" && addresses(port).includes(subnet.gateway_ip ?? "")
      );
      if (network["router:external"] || routed) {
        held.add(`${bridge(network)} ${subnet.gateway_ip}/${subnet.cidr.split("/")[1]}`);
      }
    }
  }
  for (const address of externalAddresses(world)) held.add(`br-ext ${address}/32`);
  for (const fip of world.floatingips) held.add(`br-ext ${fip.floating_ip_address}/32`);
  return [...held].sort();
}

function externalAddresses(world: World): string[] {
  return world.routers.flatMap((router) =>
    (router.external_gateway_info?.external_fixed_ips ?? []).map((fixed) => fixed.ip_address).filter(isV4)
  );
}

/** The routers' extra routes, as `destination nexthop`; the first of two with one destination. */
export function extraRoutes(world: World): string[] {
  const byDestination = new Map<string, string>();
  for (const route of world.routers.flatMap((router) => router.routes)) {
    if (isV4(route.destination) && !byDestination.has(route.destination)) {
      byDestination.set(route.destination, route.nexthop);
    }
  }
  return [...byDestination].map(([destination, nexthop]) => `${destination} ${nexthop}`).sort();
}

/** What leaves by the external network without a floating IP: each routed subnet and its router's address. */
export function sourceNats(world: World): { cidr: string; address: string }[] {
  const found: { cidr: string; address: string }[] = [];
  for (const router of world.routers) {
    const address = router.external_gateway_info?.external_fixed_ips.find((fixed) => isV4(fixed.ip_address));
    if (!address) continue;
    for (const port of world.ports) {
      if (port.device_id !== router.id || port.device_owner !== "network:router_interface") continue;
      for (const fixed of port.fixed_ips) {
        const subnet = world.subnets.find((each) => each.id === fixed.subnet_id);
        if (subnet?.ip_version === 4) found.push({ cidr: subnet.cidr, address: address.ip_address });
      }
    }
  }
  return found.sort((a, b) => a.cidr < b.cidr ? -1 : 1);
}
