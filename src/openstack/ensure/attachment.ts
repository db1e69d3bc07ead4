// A port on a server. Nova does both ways later than it answers, so the truth is always the port's `device_id`.
import type { OpenStack } from "../contract.ts";
import { failedTo, isAmbiguous, isNotFound, naming, OpenStackError } from "../errors.ts";
import { type CallOptions, getPort, type NeutronPort } from "../neutron.ts";
import { attachInterface, detachInterface } from "../nova.ts";
import type { Owner } from "./owner.ts";

export type Attachment = { state: "attached"; why: "" } | { state: "waiting"; why: string };
export type Detachment = { state: "detached"; why: "" } | { state: "waiting"; why: string };

export interface AttachOptions extends CallOptions {
  portID: string;
  /** Milliseconds since the epoch. */
  now?: () => number;
}

/**
 * A detach is asked for once, and again after this time: each one is a task for a compute host that may be in trouble
 * already. One whose answer was lost is repeated sooner.
 */
const ASK_AGAIN_MS = 60_000;
const ASK_LOST_AGAIN_MS = 10_000;

/** Detaches asked for: per cloud and port the server, and until when to be content with that. */
const asked = new WeakMap<OpenStack, Map<string, { serverID: string; until: number; what: string }>>();

/** The detach of a port from a server that was asked for a short time ago. */
function pending(os: OpenStack, options: AttachOptions & { serverID: string }): string | undefined {
  const known = asked.get(os)?.get(options.portID);
  const { now = Date.now } = options;
  return known?.serverID === options.serverID && known.until > now() ? known.what : undefined;
}

/**
 * Attaches the owner's port to a server. A port that is on another server is detached first, which takes time:
 * `waiting` says for what, and a later call goes on. After a failure that may hide a success the port is read back.
 * @throws Error that names port, owner and server
 */
export function attachPort(
  os: OpenStack,
  owner: Owner,
  options: AttachOptions & { serverID: string },
): Promise<Attachment> {
  return naming(
    `attach port ${options.portID} of ${owner.name} to server ${options.serverID}`,
    () => attachPortNow(os, owner, options),
  );
}

async function attachPortNow(
  os: OpenStack,
  owner: Owner,
  options: AttachOptions & { serverID: string },
): Promise<Attachment> {
  const { portID, serverID } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const what = `attach port ${portID} of ${owner.name} to server ${serverID}`;
  const port = await read(os, owner, { portID, what, ...call });
  if (port.device_id === serverID) {
    // A gateway that comes back to a node while its port still leaves it.
    const leaving = pending(os, options);
    return leaving === undefined
      ? { state: "attached", why: "" }
      : { state: "waiting", why: `port ${portID} is leaving server ${serverID}; ${leaving}` };
  }
  if (port.device_id !== "") {
    refuseForeignDevice(port, owner);
    const what = await detach(os, owner, { port, ...options });
    return { state: "waiting", why: `port ${portID} is still attached to server ${port.device_id}; ${what}` };
  }
  asked.get(os)?.delete(portID);
  try {
    await attachInterface(os, serverID, { portID, ...call });
  } catch (error) {
    const conflict = error instanceof OpenStackError && error.status === 409;
    // A server that is shown 404 after a race may have the port all the same, so any refusal of these is looked at.
    if (!isAmbiguous(error) && !conflict && !isNotFound(error)) throw failedTo(what, error);
    const seen = await look(os, owner, { portID, serverID, what, ...call });
    if (seen) return seen;
    // "Port .. is still in use.": Nova has not yet finished a detach that Neutron shows as done.
    if (conflict && /still in use/i.test(error.message)) {
      return {
        state: "waiting",
        why: `Nova still counts port ${portID} as in use; it is attached when that clears`,
      };
    }
    throw failedTo(
      what,
      error,
      isNotFound(error) ? "see that the server exists in the credentials' project" : "",
    );
  }
  // After a 200 too: of two servers asked at once, Nova has answered 200 to the one that did not get the port.
  const seen = await look(os, owner, { portID, serverID, what, ...call });
  return seen ?? { state: "waiting", why: `port ${portID} does not show server ${serverID} yet` };
}

/** Where the port is now; undefined when it is on no server. */
async function look(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { portID: string; serverID: string; what: string },
): Promise<Attachment | undefined> {
  const { serverID, ...rest } = options;
  const { device_id: at } = await read(os, owner, rest);
  if (at === serverID) return { state: "attached", why: "" };
  return at === "" ? undefined : { state: "waiting", why: `port ${rest.portID} is in use by server ${at}` };
}

/** Asks for the detach of the owner's port from whatever server it is on. A port that is gone is detached. */
export async function detachPort(
  os: OpenStack,
  owner: Owner,
  options: AttachOptions,
): Promise<Detachment> {
  const { portID } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const what = `detach port ${portID} of ${owner.name}`;
  try {
    const port = await read(os, owner, { portID, what, ...call });
    if (port.device_id !== "") {
      refuseForeignDevice(port, owner);
      const came = await detach(os, owner, { port, ...options });
      const now = await read(os, owner, { portID, what, ...call });
      if (now.device_id !== "") {
        return {
          state: "waiting",
          why: `port ${portID} is still attached to server ${now.device_id}; ${came}`,
        };
      }
    }
    asked.get(os)?.delete(portID);
    return { state: "detached", why: "" };
  } catch (error) {
    if (isNotFound(error) && error.service === "network") return { state: "detached", why: "" };
    throw error;
  }
}

async function read(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { portID: string; what: string },
): Promise<NeutronPort> {
  const { portID, what, ...call } = options;
  try {
    return await getPort(os, portID, call);
  } catch (error) {
    throw failedTo(what, error, isNotFound(error) ? `port ${portID} of ${owner.name} is gone` : "");
  }
}

/** Asks for a detach, unless that was done a short time ago. Answers what came of it, for `why`. */
async function detach(
  os: OpenStack,
  owner: Owner,
  options: AttachOptions & { port: NeutronPort },
): Promise<string> {
  const { port, portID, signal, now = Date.now } = options;
  const serverID = port.device_id;
  const before = pending(os, { ...options, serverID });
  if (before !== undefined) return before;
  let lost = "";
  try {
    await detachInterface(os, serverID, { portID, ...(signal ? { signal } : {}) });
  } catch (error) {
    // Whether it is detached is read from the port anyway.
    if (!isAmbiguous(error)) {
      throw failedTo(`detach port ${portID} of ${owner.name} from server ${serverID}`, error);
    }
    lost = `, but ${error.message}`;
  }
  const what = `its detach was asked for at ${new Date(now()).toISOString()}${lost}`;
  const until = now() + (lost ? ASK_LOST_AGAIN_MS : ASK_AGAIN_MS);
  asked.set(os, (asked.get(os) ?? new Map()).set(portID, { serverID, until, what }));
  return what;
}

/** A port that somebody gave to a router or a load balancer is not Nova's to detach. */
function refuseForeignDevice(port: NeutronPort, owner: Owner): void {
  if (port.device_owner === "" || port.device_owner.startsWith("compute:")) return;
  throw new Error(
    `Cannot move port ${port.id} of ${owner.name}: ${port.device_owner} ${port.device_id} has it; free it there`,
  );
}
