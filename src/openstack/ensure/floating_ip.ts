// The public address of a port. Neutron lets an update take an address from any other port of the project without a
// word, so that is looked at here, and every association is bound to the revision that was looked at.
import type { OpenStack } from "../contract.ts";
import { failedTo, isAmbiguous, isStale, naming } from "../errors.ts";
import {
  associateFloatingIP,
  type CallOptions,
  createFloatingIP,
  type FloatingIP,
  getFloatingIP,
  getPort,
  listFloatingIPs,
} from "../neutron.ts";
import { addTag, dropTag, supportsTags } from "../tags.ts";
import { releaseAddresses } from "./floating_ip_release.ts";
import { adopt, findOwned, type OwnedKind, tagOrDelete } from "./owned.ts";
import { markedDescription, type Owner, tagKey } from "./owner.ts";

export type FloatingIPOutcome =
  /** `pinned`: not ours to delete. */
  | { kind: "attached"; id: string; address: string; pinned: boolean }
  /** It sits on a port that is not the owner's; nothing was changed. */
  | { kind: "elsewhere"; id: string; address: string; portID: string; why: string }
  | { kind: "notFound"; address: string; why: string }
  /** Another owner pinned it first; `by` is that pin's tag. */
  | { kind: "pinnedByOther"; id: string; address: string; portID: string; by: string; why: string };

export interface FloatingIPOptions extends CallOptions {
  portID: string;
  /** An existing address that belongs to the customer; without it one of our own is found or made. */
  pinnedAddress?: string;
  /** Where an own address is made. */
  externalNetworkID?: string;
  /** Marks a pinned address as in use by the owner, as `KEY=VALUE`; never on an address of our own. */
  pinnedTag: string;
}

/** How often somebody else may change an address between our look and our write. */
const MAX_ATTEMPTS = 4;

export function addresses(os: OpenStack, options: CallOptions): OwnedKind<FloatingIP> {
  return { kind: "floatingips", called: "floating IP", list: (query) => listFloatingIPs(os, query, options) };
}

/**
 * Puts the owner's address on its port: the pinned one, or one of its own, found by port, then by tag, then made.
 * Idempotent; an address on a foreign port is never taken.
 * @throws Error that names address, port and owner, when OpenStack refuses or does not answer
 */
export function ensureFloatingIP(
  os: OpenStack,
  owner: Owner,
  options: FloatingIPOptions,
): Promise<FloatingIPOutcome> {
  return naming(
    `put the floating IP of ${owner.name} on port ${options.portID}`,
    () => ensureFloatingIPNow(os, owner, options),
  );
}

async function ensureFloatingIPNow(
  os: OpenStack,
  owner: Owner,
  options: FloatingIPOptions,
): Promise<FloatingIPOutcome> {
  const { pinnedAddress } = options;
  let failure: unknown;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    try {
      return pinnedAddress === undefined
        ? await ensureOwn(os, owner, options)
        : await ensurePinned(os, owner, { ...options, pinnedAddress });
    } catch (error) {
      // Changed by somebody else, or the answer was lost: look again before anything else.
      if (!isStale(error) && !isAmbiguous(error)) throw error;
      failure = error;
    }
  }
  throw failure;
}

async function ensurePinned(
  os: OpenStack,
  owner: Owner,
  options: FloatingIPOptions & { pinnedAddress: string },
): Promise<FloatingIPOutcome> {
  const { portID, pinnedAddress, pinnedTag } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const found = (await listFloatingIPs(os, { floating_ip_address: pinnedAddress }, call))
    .find((one) => one.floating_ip_address === pinnedAddress);
  if (found === undefined) {
    return {
      kind: "notFound",
      address: pinnedAddress,
      why:
        `floating IP ${pinnedAddress} does not exist in the project of the credentials; create it there, or pin ` +
        "another",
    };
  }
  const { fip, outcome } = await pin(os, owner, { fip: found, portID, pinnedTag, ...call });
  if (outcome) return outcome;
  if (fip.port_id === portID) return attached(fip, true);
  const elsewhere = await onForeignPort(os, owner, { fip, ...call });
  if (elsewhere) return elsewhere;
  // What was on the port until now would make Neutron refuse a second address.
  await releaseAddresses(os, owner, { portIDs: [portID], pinnedTag, except: fip.id, ...call });
  return attached(await associate(os, owner, { fip, portID, ...call }), true);
}

/**
 * Leaves our mark on a pinned address, unless another owner's is there. Of two that marked it at the same moment the
 * one whose tag sorts first keeps it, and the other takes its mark away.
 */
async function pin(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { fip: FloatingIP; portID: string; pinnedTag: string },
): Promise<{ fip: FloatingIP; outcome?: FloatingIPOutcome }> {
  const { fip, portID, pinnedTag, ...call } = options;
  if (!await supportsTags(os, call)) return { fip };
  const foreign = (tags: string[]) =>
    tags.filter((tag) => tag.startsWith(tagKey(pinnedTag)) && tag !== pinnedTag).sort();
  const marked = fip.tags.includes(pinnedTag);
  const [before] = foreign(fip.tags);
  if (marked && (before === undefined || pinnedTag < before || fip.port_id === portID)) return { fip };
  if (before !== undefined && fip.port_id !== portID) {
    if (marked) await dropTag(os, "floatingips", { id: fip.id, tag: pinnedTag, ...call });
    return { fip, outcome: pinnedByOther(fip, before) };
  }
  try {
    const tags = await addTag(os, "floatingips", { id: fip.id, tag: pinnedTag, ...call });
    const [after] = foreign(tags);
    if (after !== undefined && after < pinnedTag && fip.port_id !== portID) {
      await dropTag(os, "floatingips", { id: fip.id, tag: pinnedTag, ...call });
      return { fip, outcome: pinnedByOther(fip, after) };
    }
  } catch (error) {
    throw failedTo(
      `tag floating IP ${fip.floating_ip_address} (${fip.id}) as pinned by ${owner.name}`,
      error,
    );
  }
  // Tagging changes the revision.
  return { fip: await getFloatingIP(os, fip.id, call) };
}

async function ensureOwn(
  os: OpenStack,
  owner: Owner,
  options: FloatingIPOptions,
): Promise<FloatingIPOutcome> {
  const { portID, externalNetworkID, pinnedTag } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const of = addresses(os, call);
  const [onPort] = await listFloatingIPs(os, { port_id: portID }, call);
  if (onPort?.port_id === portID) {
    if (onPort.tags.includes(owner.tag)) return attached(onPort, onPort.tags.includes(pinnedTag));
    const unclaimed = !onPort.tags.some((tag) =>
      tag.startsWith(tagKey(owner.tag)) || tag.startsWith(tagKey(pinnedTag))
    );
    if (onPort.description !== markedDescription(owner) || !unclaimed) return attached(onPort, true);
    if (await supportsTags(os, call)) await adopt(os, owner, { of, twin: onPort, ...call });
    return attached(onPort, false);
  }
  // A pin that left the spec while its address was elsewhere: others may have it now.
  if (await supportsTags(os, call)) {
    for (const { id } of await listFloatingIPs(os, { tags: pinnedTag }, call)) {
      await dropTag(os, "floatingips", { id, tag: pinnedTag, ...call });
    }
  }
  const { tagged, twins } = await findOwned(os, owner, { of, ...call });
  const own = tagged[0] ?? (twins[0] && await adopt(os, owner, { of, twin: twins[0], ...call }));
  if (own) {
    const elsewhere = await onForeignPort(os, owner, { fip: own, ...call });
    if (elsewhere) return elsewhere;
    // Adopting has tagged it, and tagging changes the revision.
    const fip = tagged[0] ?? await getFloatingIP(os, own.id, call);
    return attached(await associate(os, owner, { fip, portID, ...call }), false);
  }
  if (externalNetworkID === undefined) {
    throw new TypeError(`Cannot create a floating IP for ${owner.name}: externalNetworkID is not set`);
  }
  return attached(await createOwn(os, owner, { ...options, externalNetworkID }), false);
}

// Made on the port in one call: one that is made first and associated later leaks each time the second step fails.
async function createOwn(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { portID: string; externalNetworkID: string },
): Promise<FloatingIP> {
  const { portID, externalNetworkID, ...rest } = options;
  const call = rest.signal ? { signal: rest.signal } : {};
  await supportsTags(os, call);
  let made: FloatingIP;
  try {
    made = await createFloatingIP(os, {
      floating_network_id: externalNetworkID,
      port_id: portID,
      description: markedDescription(owner),
    }, call);
  } catch (error) {
    throw failedTo(
      `create a floating IP in network ${externalNetworkID} on port ${portID} of ${owner.name}`,
      error,
      hintOf(error),
    );
  }
  return await tagOrDelete(os, owner, { of: addresses(os, call), made, ...call });
}

async function associate(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { fip: FloatingIP; portID: string },
): Promise<FloatingIP> {
  const { fip, portID, ...call } = options;
  try {
    return await associateFloatingIP(os, fip.id, {
      portID,
      ...(fip.revision_number == null ? {} : { ifRevision: fip.revision_number }),
      ...call,
    });
  } catch (error) {
    const what = `put floating IP ${fip.floating_ip_address} (${fip.id}) on port ${portID} of ${owner.name}`;
    throw failedTo(what, error, hintOf(error));
  }
}

/** The outcome `elsewhere` when the address is on a port that does not carry the owner's tag. */
async function onForeignPort(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { fip: FloatingIP },
): Promise<FloatingIPOutcome | undefined> {
  const { fip, ...call } = options;
  if (fip.port_id === "" || await isOwnPort(os, owner, { portID: fip.port_id, ...call })) return undefined;
  return {
    kind: "elsewhere",
    id: fip.id,
    address: fip.floating_ip_address,
    portID: fip.port_id,
    why:
      `floating IP ${fip.floating_ip_address} (${fip.id}) is on port ${fip.port_id}, which is not a port of ` +
      `${owner.name}; free it there (openstack floating ip unset --port ${fip.id})`,
  };
}

/** True when a port carries the owner's tag or marker. One that can't be seen is somebody else's. */
export async function isOwnPort(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { portID: string },
): Promise<boolean> {
  const { portID, ...call } = options;
  try {
    const port = await getPort(os, portID, call);
    return port.tags.includes(owner.tag) || port.description === markedDescription(owner);
  } catch (error) {
    const status = error instanceof Error && "status" in error ? error.status : undefined;
    if (status === 404 || status === 403) return false;
    throw error;
  }
}

function attached(fip: FloatingIP, pinned: boolean): FloatingIPOutcome {
  return { kind: "attached", id: fip.id, address: fip.floating_ip_address, pinned };
}

function pinnedByOther(fip: FloatingIP, by: string): FloatingIPOutcome {
  return {
    kind: "pinnedByOther",
    id: fip.id,
    address: fip.floating_ip_address,
    portID: fip.port_id,
    by,
    why:
      `floating IP ${fip.floating_ip_address} (${fip.id}) is already pinned (tag ${by}); the first pin wins: ` +
      "remove that one, or the tag if its owner is gone",
  };
}

function hintOf(error: unknown): string {
  const type = error instanceof Error && "type" in error ? error.type : "";
  if (type === "ExternalGatewayForFloatingIPNotFound") {
    return "connect the port's subnet to a router with a gateway on the external network";
  }
  if (type === "FloatingIPPortAlreadyAssociated") {
    return "another floating IP was put on the port; take that one off";
  }
  return "";
}
