import type { OpenStack } from "../contract.ts";
import { failedTo, isNotFound } from "../errors.ts";
import { type CallOptions, getNetwork, getSubnet } from "../neutron.ts";

/** What a port gets from where it is. */
export interface NetworkFacts {
  networkName: string;
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
 * @throws Error that names the id that is unknown or unfit
 */
export async function describeNetwork(
  os: OpenStack,
  options: CallOptions & { networkID: string; subnetID: string; externalNetworkID?: string },
): Promise<NetworkFacts> {
  const { networkID, subnetID, externalNetworkID } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const network = await known("network", networkID, getNetwork(os, networkID, call));
  const subnet = await known("subnet", subnetID, getSubnet(os, subnetID, call));
  if (subnet.network_id !== networkID) {
    throw new TypeError(
      `Cannot use subnet ${subnetID} with network ${networkID}: it belongs to network ${subnet.network_id}`,
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
    cidr: subnet.cidr,
    prefixLength: Number(subnet.cidr.split("/")[1]),
    mtu: network.mtu || DEFAULT_MTU,
    ...(subnet.gateway_ip ? { gatewayIP: subnet.gateway_ip } : {}),
  };
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
