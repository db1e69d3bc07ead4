import type { OpenStack } from "../contract.ts";
import { failedTo, isAmbiguous, naming } from "../errors.ts";
import {
  type CallOptions,
  createPort,
  getPort,
  listPorts,
  type NeutronPort,
  updatePort,
} from "../neutron.ts";
import { describeNetwork } from "./network.ts";
import { deleteOwned, findOrCreate, findOwned, type OwnedKind } from "./owned.ts";
import { markedDescription, type Owner } from "./owner.ts";

export interface Port {
  id: string;
  fixedIP: string;
  /** Of the subnet. */
  prefixLength: number;
  /** Undefined for a subnet without a gateway. */
  gatewayIP?: string;
  macAddress: string;
  mtu: number;
  /** Id of the server that it is attached to, or empty. */
  deviceID: string;
}

export interface EnsurePortOptions extends CallOptions {
  networkID: string;
  /** By default the subnet that the port is in; for a new one the network's first IPv4 subnet (by id) with a gateway. */
  subnetID?: string;
  securityGroupID: string;
  /** Exactly these addresses or prefixes beside the port's own; undefined leaves what is there. */
  allowedAddressPairs?: readonly string[];
}

export interface FoundPort {
  id: string;
  deviceID: string;
  macAddress: string;
  fixedIPs: string[];
}

function ports(os: OpenStack, options: CallOptions): OwnedKind<NeutronPort> {
  return {
    kind: "ports",
    called: "port",
    list: (query) => listPorts(os, query, options),
    idle: (port) => port.device_id === "",
  };
}

/**
 * The owner's port in a subnet, with that one security group: found by tag, adopted from an untagged twin, or created.
 * @throws Error that names port, owner and what does not fit
 */
export function ensurePort(
  os: OpenStack,
  owner: Owner,
  options: EnsurePortOptions,
): Promise<Port> {
  return naming(`make the port of ${owner.name} ready`, () => ensurePortNow(os, owner, options));
}

async function ensurePortNow(
  os: OpenStack,
  owner: Owner,
  options: EnsurePortOptions,
): Promise<Port> {
  const { networkID, securityGroupID } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const found = await findOrCreate(os, owner, {
    of: ports(os, call),
    create: async () => {
      const { subnetID } = await describeNetwork(os, options);
      return await createPort(os, {
        name: owner.name,
        description: markedDescription(owner),
        network_id: networkID,
        fixed_ips: [{ subnet_id: subnetID }],
        security_groups: [securityGroupID],
        admin_state_up: true,
        ...(options.allowedAddressPairs === undefined
          ? {}
          : { allowed_address_pairs: options.allowedAddressPairs.map((ip_address) => ({ ip_address })) }),
      }, call);
    },
    ...call,
  });
  const fixed = options.subnetID === undefined
    ? found.fixed_ips[0]
    : found.fixed_ips.find((one) => one.subnet_id === options.subnetID);
  if (fixed === undefined || found.network_id !== networkID) {
    const where = options.subnetID === undefined ? `network ${networkID}` : `subnet ${options.subnetID}`;
    throw new Error(
      `Cannot use port ${found.id} of ${owner.name}: it is in network ${found.network_id} and has no address in ` +
        `${where}; delete the port to have a new one made`,
    );
  }
  const facts = await describeNetwork(os, { networkID, subnetID: fixed.subnet_id, ...call });
  await convergePort(os, owner, { port: found, wanted: wantedOf(found, options), ...call });
  return {
    id: found.id,
    fixedIP: fixed.ip_address,
    prefixLength: facts.prefixLength,
    macAddress: found.mac_address,
    mtu: facts.mtu,
    deviceID: found.device_id,
    ...(facts.gatewayIP === undefined ? {} : { gatewayIP: facts.gatewayIP }),
  };
}

/** Sets exactly these allowed address pairs on a port of the owner's. */
export function ensureAddressPairs(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { portID: string; pairs: readonly string[] },
): Promise<void> {
  return naming(
    `set the address pairs of port ${options.portID} of ${owner.name}`,
    () => ensureAddressPairsNow(os, owner, options),
  );
}

async function ensureAddressPairsNow(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { portID: string; pairs: readonly string[] },
): Promise<void> {
  const call = options.signal ? { signal: options.signal } : {};
  const port = await getPort(os, options.portID, call);
  const wanted = pairsChange(port, options.pairs);
  await convergePort(os, owner, { port, wanted, ...call });
}

/** The owner's ports, oldest first; twins that were never tagged are among them. */
export async function findPorts(
  os: OpenStack,
  owner: Owner,
  options: CallOptions = {},
): Promise<FoundPort[]> {
  const { tagged, twins } = await naming(
    `look for the ports of ${owner.name}`,
    () => findOwned(os, owner, { of: ports(os, options), alsoTwins: true, ...options }),
  );
  return [...tagged, ...twins].map((port) => ({
    id: port.id,
    deviceID: port.device_id,
    macAddress: port.mac_address,
    fixedIPs: port.fixed_ips.map((fixed) => fixed.ip_address),
  }));
}

/**
 * Deletes the owner's ports, attached or not; Nova drops a deleted port from its server by itself. To leave a server
 * in good order, detach first.
 */
export function deletePort(
  os: OpenStack,
  owner: Owner,
  options: CallOptions = {},
): Promise<{ deleted: string[] }> {
  return deleteOwned(os, owner, { of: ports(os, options), ...options });
}

function wantedOf(
  port: NeutronPort,
  options: { securityGroupID: string; allowedAddressPairs?: readonly string[] },
): Record<string, unknown> {
  const groups = port.security_groups;
  return {
    ...(groups.length === 1 && groups[0] === options.securityGroupID
      ? {}
      : { security_groups: [options.securityGroupID] }),
    ...(port.admin_state_up === false ? { admin_state_up: true } : {}),
    ...(options.allowedAddressPairs === undefined ? {} : pairsChange(port, options.allowedAddressPairs)),
  };
}

function pairsChange(port: NeutronPort, pairs: readonly string[]): Record<string, unknown> {
  // Neutron fills in the port's own MAC, and keeps "10.0.0.1" and "10.0.0.1/32" as they were given.
  const plain = (address: string) => address.replace(/\/32$|\/128$/, "").toLowerCase();
  const actual = port.allowed_address_pairs;
  const same = actual.every((pair) => (pair.mac_address ?? port.mac_address) === port.mac_address) &&
    actual.map((pair) => plain(pair.ip_address)).sort().join() === pairs.map(plain).sort().join();
  return same ? {} : { allowed_address_pairs: [...pairs].sort().map((ip_address) => ({ ip_address })) };
}

async function convergePort(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { port: NeutronPort; wanted: Record<string, unknown> },
): Promise<void> {
  const { port, wanted, ...call } = options;
  if (Object.keys(wanted).length === 0) return;
  try {
    await updatePort(os, port.id, { body: wanted, ...call });
  } catch (error) {
    // The same write again is harmless, so a lost answer needs no reading back: the next round sees what is there.
    const lost = isAmbiguous(error) ? "the next try reads it back" : "";
    throw failedTo(
      `set ${Object.keys(wanted).sort().join(", ")} of port ${port.id} of ${owner.name}`,
      error,
      lost,
    );
  }
}
