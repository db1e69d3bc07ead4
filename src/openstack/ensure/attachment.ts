// A port on a server. Nova does both ways later than it answers, so the truth is always the port's `device_id`.
import type { OpenStack } from "../contract.ts";
import { failedTo, isAmbiguous, isNotFound, naming, OpenStackError } from "../errors.ts";
import { type CallOptions, getPort, type NeutronPort } from "../neutron.ts";
import { attachInterface, detachInterface } from "../nova.ts";
import type { Owner } from "./owner.ts";

export type Attachment = { state: "attached"; why: "" } | { state: "waiting"; why: string };
export type Detachment = { state: "detached"; why: "" } | { state: "waiting"; why: string };

/**
 * Attaches the owner's port to a server. A port that is on another server is detached first, which takes time:
 * `waiting` says for what, and a later call goes on. After a failure that may hide a success the port is read back.
 * @throws Error that names port, owner and server
 */
export function attachPort(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { portID: string; serverID: string },
): Promise<Attachment> {
  return naming(
    `attach port ${options.portID} of ${owner.name} to server ${options.serverID}`,
    () => attachPortNow(os, owner, options),
  );
}

async function attachPortNow(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { portID: string; serverID: string },
): Promise<Attachment> {
  const { portID, serverID } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const what = `attach port ${portID} of ${owner.name} to server ${serverID}`;
  const port = await read(os, owner, { portID, what, ...call });
  if (port.device_id === serverID) return { state: "attached", why: "" };
  if (port.device_id !== "") {
    refuseForeignDevice(port, owner);
    const asked = await detach(os, owner, { port, ...call });
    return {
      state: "waiting",
      why: `port ${portID} is still attached to server ${port.device_id}; ${asked}`,
    };
  }
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
  options: CallOptions & { portID: string },
): Promise<Detachment> {
  const { portID } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const what = `detach port ${portID} of ${owner.name}`;
  try {
    const port = await read(os, owner, { portID, what, ...call });
    if (port.device_id === "") return { state: "detached", why: "" };
    refuseForeignDevice(port, owner);
    const asked = await detach(os, owner, { port, ...call });
    const now = await read(os, owner, { portID, what, ...call });
    if (now.device_id === "") return { state: "detached", why: "" };
    return { state: "waiting", why: `port ${portID} is still attached to server ${now.device_id}; ${asked}` };
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

/** Answers what came of asking, for `why`. */
async function detach(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { port: NeutronPort },
): Promise<string> {
  const { port, ...call } = options;
  try {
    await detachInterface(os, port.device_id, { portID: port.id, ...call });
    return "its detach was asked for";
  } catch (error) {
    // A lost answer changes nothing: whether it is detached is read from the port anyway.
    if (isAmbiguous(error)) return `its detach was asked for, but ${error.message}`;
    throw failedTo(`detach port ${port.id} of ${owner.name} from server ${port.device_id}`, error);
  }
}

/** A port that somebody gave to a router or a load balancer is not Nova's to detach. */
function refuseForeignDevice(port: NeutronPort, owner: Owner): void {
  if (port.device_owner === "" || port.device_owner.startsWith("compute:")) return;
  throw new Error(
    `Cannot move port ${port.id} of ${owner.name}: ${port.device_owner} ${port.device_id} has it; free it there`,
  );
}
