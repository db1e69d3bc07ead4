// The Neutron calls we need (https://docs.openstack.org/api-ref/network/v2/), with the names of its API.
import { z } from "zod";
import type { OpenStack, Query } from "./contract.ts";
import { isNotFound } from "./errors.ts";
import { listAll, parseBody } from "./pages.ts";

export interface CallOptions {
  signal?: AbortSignal;
}

export interface ConditionalOptions extends CallOptions {
  /** The write fails with 412 unless this is still the object's `revision_number`. */
  ifRevision?: number;
}

// null and absent are the same to us.
const text = z.string().nullish().transform((value) => value ?? "");
const tags = z.array(z.string()).nullish().transform((value) => value ?? []);
const named = { id: z.string(), name: text, description: text, tags, created_at: text };

const networkSchema = z.object({
  id: z.string(),
  name: text,
  mtu: z.number().nullish(),
  "router:external": z.boolean().nullish(),
});

const subnetSchema = z.object({
  id: z.string(),
  name: text,
  network_id: z.string(),
  cidr: z.string(),
  ip_version: z.number(),
  gateway_ip: z.string().nullish(),
});

const ruleSchema = z.object({
  id: z.string(),
  direction: z.enum(["ingress", "egress"]),
  ethertype: z.string(),
  protocol: z.union([z.string(), z.number()]).nullish(),
  port_range_min: z.number().nullish(),
  port_range_max: z.number().nullish(),
  remote_ip_prefix: z.string().nullish(),
  remote_group_id: z.string().nullish(),
  remote_address_group_id: z.string().nullish(),
});

const securityGroupSchema = z.object({ ...named });

const portSchema = z.object({
  ...named,
  network_id: z.string(),
  mac_address: z.string(),
  fixed_ips: z.array(z.object({ subnet_id: z.string(), ip_address: z.string() })),
  device_id: text,
  device_owner: text,
  security_groups: tags,
  allowed_address_pairs: z.array(z.object({ ip_address: z.string(), mac_address: z.string().nullish() }))
    .nullish()
    .transform((value) => value ?? []),
  admin_state_up: z.boolean().nullish(),
  revision_number: z.number().nullish(),
});

const floatingIPSchema = z.object({
  id: z.string(),
  description: text,
  tags,
  created_at: text,
  floating_ip_address: z.string(),
  floating_network_id: z.string(),
  port_id: text,
  revision_number: z.number().nullish(),
});

const routerSchema = z.object({
  id: z.string(),
  name: text,
  routes: z.array(z.object({ destination: z.string(), nexthop: z.string() })).nullish().transform((value) =>
    value ?? []
  ),
});

export type Network = z.infer<typeof networkSchema>;
export type Subnet = z.infer<typeof subnetSchema>;
export type SecurityGroup = z.infer<typeof securityGroupSchema>;
export type SecurityGroupRule = z.infer<typeof ruleSchema>;
export type NeutronPort = z.infer<typeof portSchema>;
export type FloatingIP = z.infer<typeof floatingIPSchema>;
export type Router = z.infer<typeof routerSchema>;
export type Route = Router["routes"][number];

/** Resources that we tag, by their part of the path. */
export type Taggable = "security-groups" | "ports" | "floatingips";

export function getNetwork(os: OpenStack, id: string, options: CallOptions = {}): Promise<Network> {
  return get(os, `/v2.0/networks/${encodeURIComponent(id)}`, {
    key: "network",
    schema: networkSchema,
    ...options,
  });
}

export function getSubnet(os: OpenStack, id: string, options: CallOptions = {}): Promise<Subnet> {
  return get(os, `/v2.0/subnets/${encodeURIComponent(id)}`, {
    key: "subnet",
    schema: subnetSchema,
    ...options,
  });
}

/** The subnets of a network, by id. */
export async function listSubnets(
  os: OpenStack,
  networkID: string,
  options: CallOptions = {},
): Promise<Subnet[]> {
  const query = { network_id: networkID };
  const found = await list(os, "subnets", { plural: "subnets", schema: subnetSchema, query, ...options });
  return found.toSorted((a, b) => a.id.localeCompare(b.id));
}

export function getPort(os: OpenStack, id: string, options: CallOptions = {}): Promise<NeutronPort> {
  return get(os, `/v2.0/ports/${encodeURIComponent(id)}`, { key: "port", schema: portSchema, ...options });
}

export function getFloatingIP(os: OpenStack, id: string, options: CallOptions = {}): Promise<FloatingIP> {
  const path = `/v2.0/floatingips/${encodeURIComponent(id)}`;
  return get(os, path, { key: "floatingip", schema: floatingIPSchema, ...options });
}

export function getRouter(os: OpenStack, id: string, options: CallOptions = {}): Promise<Router> {
  return get(os, `/v2.0/routers/${encodeURIComponent(id)}`, {
    key: "router",
    schema: routerSchema,
    ...options,
  });
}

export function listSecurityGroups(
  os: OpenStack,
  query: Query,
  options: CallOptions = {},
): Promise<SecurityGroup[]> {
  return list(os, "security-groups", {
    plural: "security_groups",
    schema: securityGroupSchema,
    query,
    ...options,
  });
}

export function listRules(
  os: OpenStack,
  groupID: string,
  options: CallOptions = {},
): Promise<SecurityGroupRule[]> {
  const query = { security_group_id: groupID };
  return list(os, "security-group-rules", {
    plural: "security_group_rules",
    schema: ruleSchema,
    query,
    ...options,
  });
}

export function listPorts(os: OpenStack, query: Query, options: CallOptions = {}): Promise<NeutronPort[]> {
  return list(os, "ports", { plural: "ports", schema: portSchema, query, ...options });
}

export function listFloatingIPs(
  os: OpenStack,
  query: Query,
  options: CallOptions = {},
): Promise<FloatingIP[]> {
  return list(os, "floatingips", { plural: "floatingips", schema: floatingIPSchema, query, ...options });
}

/** @param body name and description; `tags` in it would be refused with 400 */
export function createSecurityGroup(
  os: OpenStack,
  body: { name: string; description: string },
  options: CallOptions = {},
): Promise<SecurityGroup> {
  return write(os, "POST", "/v2.0/security-groups", {
    key: "security_group",
    schema: securityGroupSchema,
    body,
    ...options,
  });
}

/** A second identical rule answers 409 `SecurityGroupRuleExists`; Neutron can still make two when asked at once. */
export function createRule(
  os: OpenStack,
  body: Readonly<Record<string, unknown>>,
  options: CallOptions = {},
): Promise<SecurityGroupRule> {
  return write(os, "POST", "/v2.0/security-group-rules", {
    key: "security_group_rule",
    schema: ruleSchema,
    body,
    ...options,
  });
}

export function createPort(
  os: OpenStack,
  body: Readonly<Record<string, unknown>>,
  options: CallOptions = {},
): Promise<NeutronPort> {
  return write(os, "POST", "/v2.0/ports", { key: "port", schema: portSchema, body, ...options });
}

/** Lists in `body` replace the port's whole list. */
export function updatePort(
  os: OpenStack,
  id: string,
  options: ConditionalOptions & { body: Readonly<Record<string, unknown>> },
): Promise<NeutronPort> {
  const path = `/v2.0/ports/${encodeURIComponent(id)}`;
  return write(os, "PUT", path, { key: "port", schema: portSchema, ...options });
}

/** With `port_id` in it the address is made and associated in one step, or not made at all. */
export function createFloatingIP(
  os: OpenStack,
  body: { floating_network_id: string; port_id: string; description: string },
  options: CallOptions = {},
): Promise<FloatingIP> {
  return write(os, "POST", "/v2.0/floatingips", {
    key: "floatingip",
    schema: floatingIPSchema,
    body,
    ...options,
  });
}

/**
 * Associates a floating IP, or disassociates it with null. The port is always sent: an update without it would
 * disassociate. Neutron itself would take the address from another port without a word, hence `ifRevision`.
 */
export function associateFloatingIP(
  os: OpenStack,
  id: string,
  options: ConditionalOptions & { portID: string | null },
): Promise<FloatingIP> {
  const { portID, ...rest } = options;
  const path = `/v2.0/floatingips/${encodeURIComponent(id)}`;
  return write(os, "PUT", path, {
    key: "floatingip",
    schema: floatingIPSchema,
    body: { port_id: portID },
    ...rest,
  });
}

/** Deletes one object; one that is gone already is as good. */
export async function remove(
  os: OpenStack,
  kind: Taggable | "security-group-rules",
  options: ConditionalOptions & { id: string },
): Promise<void> {
  try {
    await os.request({
      service: "network",
      method: "DELETE",
      path: `/v2.0/${kind}/${encodeURIComponent(options.id)}`,
      ...conditional(options),
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** Adds or removes single routes of a router (extension `extraroute-atomic`); the router's other routes stay. */
export function changeExtraRoutes(
  os: OpenStack,
  routerID: string,
  options: CallOptions & { change: "add" | "remove"; routes: readonly Route[] },
): Promise<Router> {
  const { change, routes, ...rest } = options;
  const path = `/v2.0/routers/${encodeURIComponent(routerID)}/${change}_extraroutes`;
  return write(os, "PUT", path, { key: "router", schema: routerSchema, body: { routes }, ...rest });
}

async function get<T>(
  os: OpenStack,
  path: string,
  options: CallOptions & { key: string; schema: z.ZodType<T> },
): Promise<T> {
  const call = { service: "network", method: "GET", path } as const;
  const { body } = await os.request({ ...call, ...conditional(options) });
  return parseBody(body, { ...call, key: options.key, schema: options.schema });
}

function list<T extends { id: string }>(
  os: OpenStack,
  kind: string,
  options: CallOptions & { plural: string; schema: z.ZodType<T>; query: Query },
): Promise<T[]> {
  return listAll(os, { service: "network", path: `/v2.0/${kind}`, ...options });
}

async function write<T>(
  os: OpenStack,
  method: "POST" | "PUT",
  path: string,
  options: ConditionalOptions & { key: string; schema: z.ZodType<T>; body: unknown },
): Promise<T> {
  const call = { service: "network", method, path } as const;
  const { body } = await os.request({
    ...call,
    body: { [options.key]: options.body },
    ...conditional(options),
  });
  return parseBody(body, { ...call, key: options.key, schema: options.schema });
}

function conditional(options: ConditionalOptions) {
  return {
    ...(options.signal === undefined ? {} : { signal: options.signal }),
    ...(options.ifRevision === undefined
      ? {}
      : { headers: { "If-Match": `revision_number=${options.ifRevision}` } }),
  };
}
