import type { OpenStack } from "../contract.ts";
import { failedTo, isNotFound, naming } from "../errors.ts";
import {
  type CallOptions,
  changeExtraRoutes,
  getRouter,
  listPorts,
  type Route,
  type Subnet,
} from "../neutron.ts";
import { pickSubnet } from "./network.ts";
import type { Owner } from "./owner.ts";

export interface EnsureRoutesOptions extends CallOptions {
  networkID: string;
  /** By default the network's subnet that the next hop is in. */
  subnetID?: string;
  nexthop: string;
  /** Prefixes; none of them removes all of ours. */
  destinations: readonly string[];
}

export interface RoutesResult {
  routerID: string;
  added: string[];
  removed: string[];
}

/** `device_owner` of a port that a router has in a subnet: plain, distributed, highly available. */
const ROUTER_OWNERS = [
  "network:router_interface",
  "network:router_interface_distributed",
  "network:ha_router_replicated_interface",
];

/**
 * Routes `destinations` to the owner's address on the router of a subnet. Routes are ours by their next hop: those to
 * `nexthop` that are not wanted are removed, all others stay. Single routes are added and removed, never the whole
 * list written, since others write to the same router.
 * @throws OpenStackError `RoutesExhausted` when the router has no room for more
 */
export function ensureRoutes(
  os: OpenStack,
  owner: Owner,
  options: EnsureRoutesOptions,
): Promise<RoutesResult> {
  return naming(`route to ${owner.name} (${options.nexthop})`, () => ensureRoutesNow(os, owner, options));
}

async function ensureRoutesNow(
  os: OpenStack,
  owner: Owner,
  options: EnsureRoutesOptions,
): Promise<RoutesResult> {
  const { nexthop } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const wanted = new Set(options.destinations);
  const subnet = await pickSubnet(os, { ...options, holding: nexthop });
  const routerID = await findRouter(os, { subnet, ...call });
  if (routerID === undefined) {
    if (wanted.size === 0) return { routerID: "", added: [], removed: [] };
    throw new Error(
      `Cannot route to ${owner.name}: subnet ${subnet.id} has no router that the credentials' project can see; ` +
        "connect it to one",
    );
  }
  const ours = (await getRouter(os, routerID, call)).routes.filter((route) => route.nexthop === nexthop);
  const there = new Set(ours.map((route) => route.destination));
  const added = [...wanted].filter((destination) => !there.has(destination)).sort();
  const removed = [...there].filter((destination) => !wanted.has(destination)).sort();
  const change = async (change: "add" | "remove", destinations: string[]) => {
    if (destinations.length === 0) return;
    const routes: Route[] = destinations.map((destination) => ({ destination, nexthop }));
    try {
      // Repeated after a lost answer, both are without effect.
      await changeExtraRoutes(os, routerID, { change, routes, ...call });
    } catch (error) {
      throw failedTo(
        `${change} routes ${destinations.join(", ")} by ${nexthop} of ${owner.name} on router ${routerID}`,
        error,
        isNotFound(error) ? "the cloud needs Neutron's extension extraroute-atomic" : "",
      );
    }
  };
  // Removals first: they make room in a full table.
  await change("remove", removed);
  await change("add", added);
  return { routerID, added, removed };
}

/** The router whose interface is the subnet's gateway, else any that has an interface there. */
async function findRouter(
  os: OpenStack,
  options: CallOptions & { subnet: Subnet },
): Promise<string | undefined> {
  const { subnet, ...call } = options;
  const ports = (await listPorts(os, { network_id: subnet.network_id, device_owner: ROUTER_OWNERS }, call))
    .filter((port) => ROUTER_OWNERS.includes(port.device_owner) && port.device_id !== "");
  const inSubnet = ports.filter((port) => port.fixed_ips.some((fixed) => fixed.subnet_id === subnet.id))
    .sort((a, b) => a.id.localeCompare(b.id));
  const byGateway = inSubnet.find((port) =>
    port.fixed_ips.some((fixed) => fixed.ip_address === subnet.gateway_ip)
  );
  return (byGateway ?? inSubnet[0])?.device_id;
}
