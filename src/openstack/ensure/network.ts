import type { OpenStack } from "../contract.ts";
import { failedTo, isNotFound } from "../errors.ts";
import { type CallOptions, getNetwork, getSubnet, listSubnets, type Subnet } from "../neutron.ts";

/** What a port gets from where it is. */
export interface NetworkFacts {
  networkName: string;
  subnetID: string;
  cidr: string;
  prefixLength: number;
  /** Undefined for a subnet without a gateway. */
  gatewayIP?: string;
  mtu: number;
}

/** Ethernet's; for a cloud that does not tell its networks' MTU. */
const DEFAULT_MTU = 1500;

/**
 * Reads a network and its subnet, and checks that they belong together and that the external network is one.
 * @param options.subnetID by default the network's first IPv4 subnet (by id) that has a gateway
 * @throws Error that names the id that is unknown or unfit
 */
export async function describeNetwork(
  os: OpenStack,
  options: CallOptions & { networkID: string; subnetID?: string; externalNetworkID?: string },
): Promise<NetworkFacts> {
  const { networkID, externalNetworkID } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const network = await known("network", networkID, getNetwork(os, networkID, call));
  const subnet = await pickSubnet(os, options);
  if (subnet.network_id !== networkID) {
    throw new TypeError(
      `Cannot use subnet ${subnet.id} with network ${networkID}: it belongs to network ${subnet.network_id}`,
    );
  }
  if (externalNetworkID !== undefined) {
    const external = await known(
      "external network",
      externalNetworkID,
      getNetwork(os, externalNetworkID, call),
    );
    if (external["router:external"] !== true) {
      throw new TypeError(
        `Cannot use network ${externalNetworkID} for floating IPs: it is not external (router:external is false)`,
      );
    }
  }
  return {
    networkName: network.name,
    subnetID: subnet.id,
    cidr: subnet.cidr,
    prefixLength: Number(subnet.cidr.split("/")[1]),
    mtu: network.mtu || DEFAULT_MTU,
    ...(subnet.gateway_ip ? { gatewayIP: subnet.gateway_ip } : {}),
  };
}

/**
 * The subnet of this id; else the network's one that holds the address; else its first IPv4 subnet (by id) that has a
 * gateway.
 * @throws Error that names the subnet, or the network that has none
 */
export async function pickSubnet(
  os: OpenStack,
  options: CallOptions & { networkID: string; subnetID?: string; holding?: string },
): Promise<Subnet> {
  const { networkID, subnetID, holding } = options;
  const call = options.signal ? { signal: options.signal } : {};
  if (subnetID !== undefined) return await known("subnet", subnetID, getSubnet(os, subnetID, call));
  const subnets = await known("network", networkID, listSubnets(os, networkID, call));
  const inNetwork = subnets.filter((subnet) => subnet.network_id === networkID && subnet.ip_version === 4);
  const first = inNetwork.find((subnet) => holding !== undefined && holds(subnet.cidr, holding)) ??
    inNetwork.find((subnet) => subnet.gateway_ip);
  if (first) return first;
  throw new TypeError(
    `Cannot choose a subnet of network ${networkID}: it has no IPv4 subnet with a gateway; name one by subnetID`,
  );
}

/** True when an IPv4 address lies in a prefix. */
function holds(cidr: string, address: string): boolean {
  const [base = "", bits = "32"] = cidr.split("/");
  const number = (text: string) => text.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const size = 2 ** (32 - Number(bits));
  return Math.floor(number(base) / size) === Math.floor(number(address) / size);
}

async function known<T>(called: string, id: string, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    const todo = isNotFound(error)
      ? "name one that the project of the credentials can see (openstack network list, subnet list)"
      : "";
    throw failedTo(`use ${called} ${id}`, error, todo);
  }
}
