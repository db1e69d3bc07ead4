import type { OpenStack } from "../contract.ts";
import { failedTo, isAmbiguous, isNotFound, isStale, naming } from "../errors.ts";
import {
  associateFloatingIP,
  type CallOptions,
  type FloatingIP,
  getFloatingIP,
  listFloatingIPs,
  remove,
} from "../neutron.ts";
import { dropTag, supportsTags } from "../tags.ts";
import { findOwned } from "./owned.ts";
import { markedDescription, type Owner, tagKey } from "./owner.ts";
import { findPorts } from "./port.ts";

export interface Released {
  /** Addresses of our own that are gone. */
  deleted: string[];
  /** Addresses of the customer's that are off our port and no longer carry our mark. */
  freed: string[];
  /** One line for each address of our own that was not deleted, with the reason. */
  left: string[];
}

/**
 * Lets go of every address of the owner's: own ones are deleted, pinned ones only taken off our port, and their mark
 * removed. An own address that somebody put on a foreign port or pinned elsewhere is left: it carries their traffic.
 */
export function releaseFloatingIP(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { pinnedTag: string },
): Promise<Released> {
  return naming(`release the floating IPs of ${owner.name}`, () => releaseFloatingIPNow(os, owner, options));
}

async function releaseFloatingIPNow(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { pinnedTag: string },
): Promise<Released> {
  const call = options.signal ? { signal: options.signal } : {};
  const portIDs = (await findPorts(os, owner, call)).map((port) => port.id);
  return await releaseAddresses(os, owner, { portIDs, pinnedTag: options.pinnedTag, ...call });
}

/** @param options.portIDs the owner's ports; @param options.except an address that stays */
export async function releaseAddresses(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { portIDs: readonly string[]; pinnedTag: string; except?: string },
): Promise<Released> {
  const { portIDs, pinnedTag, except } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const list = (query: Record<string, string>) => listFloatingIPs(os, query, call);
  const { tagged, twins } = await findOwned(os, owner, {
    of: { kind: "floatingips", called: "floating IP", list: (query) => listFloatingIPs(os, query, call) },
    alsoTwins: true,
    ...call,
  });
  const all = new Map([...tagged, ...twins].map((fip) => [fip.id, fip]));
  const more = await supportsTags(os, call) ? await list({ tags: pinnedTag }) : [];
  for (const portID of portIDs) more.push(...await list({ port_id: portID }));
  for (const fip of more) {
    if (fip.tags.includes(pinnedTag) || portIDs.includes(fip.port_id)) all.set(fip.id, fip);
  }
  const released: Released = { deleted: [], freed: [], left: [] };
  for (const fip of [...all.values()].sort((a, b) => a.id.localeCompare(b.id))) {
    if (fip.id !== except) await releaseOne(os, owner, { fip, portIDs, pinnedTag, released, ...call });
  }
  return released;
}

async function releaseOne(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & {
    fip: FloatingIP;
    portIDs: readonly string[];
    pinnedTag: string;
    released: Released;
  },
): Promise<void> {
  const { portIDs, pinnedTag, released, ...rest } = options;
  const call = rest.signal ? { signal: rest.signal } : {};
  let fip = rest.fip;
  for (let attempt = 1;; attempt++) {
    const { id, floating_ip_address: address } = fip;
    const conditions = {
      ...(fip.revision_number == null ? {} : { ifRevision: fip.revision_number }),
      ...call,
    };
    try {
      const foreignPort = fip.port_id !== "" && !portIDs.includes(fip.port_id);
      if (isOwn(fip, owner, pinnedTag)) {
        const pins = fip.tags.filter((tag) => tag.startsWith(tagKey(pinnedTag)) && tag !== pinnedTag);
        if (foreignPort || pins.length > 0) {
          const where = foreignPort
            ? `on port ${fip.port_id}, which is not ours`
            : `pinned (tag ${pins.join(", ")})`;
          released.left.push(
            `floating IP ${address} (${id}) of ${owner.name} was left, because it is ${where}`,
          );
          return;
        }
        await remove(os, "floatingips", { id, ...conditions });
        released.deleted.push(address);
        return;
      }
      if (fip.port_id !== "" && !foreignPort) {
        await associateFloatingIP(os, id, { portID: null, ...conditions });
      }
      if (fip.tags.includes(pinnedTag)) await dropTag(os, "floatingips", { id, tag: pinnedTag, ...call });
      released.freed.push(address);
      return;
    } catch (error) {
      if (isNotFound(error)) return;
      if ((!isStale(error) && !isAmbiguous(error)) || attempt >= 3) {
        throw failedTo(`release floating IP ${address} (${id}) of ${owner.name}`, error);
      }
    }
    try {
      fip = await getFloatingIP(os, id, call);
    } catch (error) {
      if (isNotFound(error)) return;
      throw failedTo(`release floating IP ${address} (${id}) of ${owner.name}`, error);
    }
  }
}

/** Made by us: carries our tag, or our marker and no pin of ours (a pinned one is the customer's whatever else it has). */
function isOwn(fip: FloatingIP, owner: Owner, pinnedTag: string): boolean {
  if (fip.tags.includes(pinnedTag)) return false;
  return fip.tags.includes(owner.tag) || fip.description === markedDescription(owner);
}
