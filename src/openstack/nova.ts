// The Nova calls we need (https://docs.openstack.org/api-ref/compute/), at its base microversion 2.1.
import { z } from "zod";
import type { OpenStack } from "./contract.ts";
import { isNotFound } from "./errors.ts";
import type { CallOptions } from "./neutron.ts";
import { listAll, parseBody } from "./pages.ts";

const serverSchema = z.object({ id: z.string(), name: z.string(), status: z.string() });
const interfaceSchema = z.object({ port_id: z.string(), net_id: z.string(), mac_addr: z.string() });

export type Server = z.infer<typeof serverSchema>;
export type ServerInterface = z.infer<typeof interfaceSchema>;

/** An attach is a synchronous call to the hypervisor and takes 12 s and more on a busy one. */
const ATTACH_TIMEOUT_MS = 120_000;

export async function getServer(os: OpenStack, id: string, options: CallOptions = {}): Promise<Server> {
  const call = { service: "compute", method: "GET", path: `/servers/${encodeURIComponent(id)}` } as const;
  const { body } = await os.request({ ...call, ...options });
  return parseBody(body, { ...call, key: "server", schema: serverSchema });
}

/** The servers of exactly this name. Nova takes `name` for an unanchored regular expression, and ignores its case. */
export async function listServersNamed(
  os: OpenStack,
  name: string,
  options: CallOptions = {},
): Promise<Server[]> {
  const found = await listAll(os, {
    service: "compute",
    path: "/servers/detail",
    plural: "servers",
    schema: serverSchema,
    query: { name: `^${escapeRegex(name)}$` },
    ...options,
  });
  return found.filter((server) => server.name === name);
}

/** `name` as a regular expression that matches itself only (in MariaDB's and SQLite's dialect). */
export function escapeRegex(name: string): string {
  return name.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

/** Nova's view of a server's ports; it is Neutron's list of the ports with that device. */
export async function listInterfaces(
  os: OpenStack,
  serverID: string,
  options: CallOptions = {},
): Promise<ServerInterface[]> {
  const path = `/servers/${encodeURIComponent(serverID)}/os-interface`;
  const call = { service: "compute", method: "GET", path } as const;
  const { body } = await os.request({ ...call, ...options });
  return parseBody(body, { ...call, key: "interfaceAttachments", schema: z.array(interfaceSchema) });
}

/** A 5xx may come although the port was attached: read the port back. */
export async function attachInterface(
  os: OpenStack,
  serverID: string,
  options: CallOptions & { portID: string },
): Promise<ServerInterface> {
  const { portID, ...rest } = options;
  const path = `/servers/${encodeURIComponent(serverID)}/os-interface`;
  const call = { service: "compute", method: "POST", path } as const;
  const { body } = await os.request({
    ...call,
    body: { interfaceAttachment: { port_id: portID } },
    timeoutMs: ATTACH_TIMEOUT_MS,
    ...rest,
  });
  return parseBody(body, { ...call, key: "interfaceAttachment", schema: interfaceSchema });
}

/**
 * Asks for a detach, which happens later: Nova answers 202 every time. A port that is not attached is as good.
 * The truth is the Neutron port's `device_id`.
 */
export async function detachInterface(
  os: OpenStack,
  serverID: string,
  options: CallOptions & { portID: string },
): Promise<void> {
  const { portID, ...rest } = options;
  const path = `/servers/${encodeURIComponent(serverID)}/os-interface/${encodeURIComponent(portID)}`;
  try {
    await os.request({ service: "compute", method: "DELETE", path, ...rest });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
