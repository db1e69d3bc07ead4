// A fault for each step of a gateway.
import type { Stop } from "./gateways.ts";
import { getJson, type Tenant } from "./operator.ts";
import {
  answered,
  cordon,
  type Fault,
  holder,
  KEYSTONE,
  neutronError,
  quota,
  refusal,
  unavailable,
} from "./step_faults.ts";

/** One fault of the way, and where it has to stop the gateway. */
export interface Stage extends Stop {
  readonly name: string;
  readonly fault: Fault;
  /** Nobody edits the gateway when the fault goes: its own timer or watch has to see it. */
  readonly byItself?: boolean;
}

/** A fault at each step, in the order of the steps: each is met only when those before are gone. */
export function stages({ namespace }: Tenant): readonly Stage[] {
  const cloud = new RegExp(`the cloud of Secret ${namespace}/cloud for IPsecGateway ${namespace}/gw`);
  const called = new RegExp(`ipsec-${namespace}-gw`);
  const tried = /; it is tried again/;
  const quotas = /; raise the project's quota or delete what is unused/;
  const owner = `${namespace}-gw`;
  return [
    {
      name: "Keystone answers 503",
      condition: "Validated",
      reason: "CloudUnreachable",
      says: [cloud, /503/, tried],
      fault: answered({ match: KEYSTONE, action: unavailable }),
      byItself: true,
    },
    {
      name: "Keystone closes the connection",
      condition: "Validated",
      reason: "CloudUnreachable",
      says: [cloud, /got no answer/, tried],
      fault: answered({ match: KEYSTONE, action: { kind: "cut-before" } }),
    },
    {
      name: "Keystone answers 401",
      condition: "Validated",
      reason: "CloudCredentialsInvalid",
      says: [cloud, /401/, /; check the credentials in the cloud Secret/],
      fault: answered({ match: KEYSTONE, action: { kind: "status", code: 401 } }),
    },
    {
      name: "the service CIDR is another gateway's",
      condition: "Allocated",
      reason: "AllocationFailed",
      says: [new RegExp(`IPsecGateway ${namespace}/gw`), /choose another or leave spec.serviceCIDR out/],
      fault: holder,
    },
    {
      name: "security groups cannot be listed",
      condition: "PortReady",
      reason: "EnsureSecurityGroupFailed",
      says: [called, /GET network .*500/, tried],
      fault: answered({
        match: {
          method: "GET",
          path: `^/network/v2.0/security-groups\\?.*description=[^&]*${namespace}%2Fgw`,
        },
        action: { kind: "status", code: 500 },
      }),
    },
    {
      name: "no security group can be made",
      condition: "PortReady",
      reason: "EnsureSecurityGroupFailed",
      says: [called, /503/, tried],
      fault: answered({
        match: { method: "POST", path: "^/network/v2.0/security-groups$", body: owner },
        action: unavailable,
      }),
    },
    {
      name: "the quota of security-group rules is used up",
      condition: "PortReady",
      reason: "EnsureSecurityGroupFailed",
      says: [called, /add rule "ingress /, /OverQuota/, quotas],
      fault: answered({
        match: { method: "POST", path: "^/network/v2.0/security-group-rules$" },
        action: neutronError(409, "OverQuota", "Quota exceeded for resources: ['security_group_rule']."),
      }),
    },
    {
      name: "the quota of ports is used up",
      condition: "PortReady",
      reason: "EnsurePortFailed",
      says: [called, /OverQuota/, quotas],
      fault: answered({
        match: { method: "POST", path: "^/network/v2.0/ports$", body: owner },
        action: neutronError(409, "OverQuota", "Quota exceeded for resources: ['port']."),
      }),
    },
    {
      name: "no node takes the pod",
      condition: "PortAttached",
      reason: "NoReadyNode",
      says: [new RegExp(`IPsecGateway ${namespace}/gw`), /add or repair a node, or change spec.nodeSelector/],
      fault: cordon,
      byItself: true,
    },
    {
      name: "the node's server is not there",
      condition: "PortAttached",
      reason: "ServerNotFound",
      says: [/node node[12]/, /needs credentials of the nodes' project/],
      fault: answered({
        match: { method: "GET", path: "^/compute/v2.1/servers/[0-9a-f-]{36}$" },
        action: {
          kind: "status",
          code: 404,
          body: '{"itemNotFound":{"code":404,"message":"Instance not found"}}',
        },
      }),
    },
    {
      name: "Nova fails to attach",
      condition: "PortAttached",
      reason: "AttachFailed",
      says: [called, /server [0-9a-f-]{36}/, /500/, tried],
      fault: answered({
        match: { method: "POST", path: "^/compute/v2.1/servers/[^/]+/os-interface$" },
        action: { kind: "status", code: 500, body: '{"computeFault":{"code":500,"message":"Unexpected"}}' },
      }),
    },
    {
      name: "Nova refuses to attach",
      condition: "PortAttached",
      reason: "AttachFailed",
      says: [called, /409/, /while it is in task_state deleting/],
      fault: answered({
        match: { method: "POST", path: "^/compute/v2.1/servers/[^/]+/os-interface$" },
        action: {
          kind: "status",
          code: 409,
          body:
            '{"conflictingRequest":{"code":409,"message":"Cannot attach interface while it is in task_state deleting"}}',
        },
      }),
    },
    {
      name: "no floating IP can be made",
      condition: "FIPAttached",
      reason: "EnsureFIPFailed",
      says: [called, /503/, tried],
      fault: answered({
        match: { method: "POST", path: "^/network/v2.0/floatingips$", body: `${namespace}/gw` },
        action: unavailable,
      }),
    },
    {
      name: "the router takes no routes",
      condition: "RoutingReady",
      reason: "EnsureRoutingFailed",
      says: [called, /192\.168\.77\.0\/24/, /router [0-9a-f-]{36}/, /500/, tried],
      fault: answered({
        match: { method: "PUT", path: "^/network/v2.0/routers/[^/]+/add_extraroutes$" },
        action: { kind: "status", code: 500 },
      }),
    },
    {
      name: "the router's table is full",
      condition: "RoutingReady",
      reason: "LimitReached",
      says: [called, /router [0-9a-f-]{36}/, /RoutesExhausted/, /; remove routes that nobody needs/],
      fault: answered({
        match: { method: "PUT", path: "^/network/v2.0/routers/[^/]+/add_extraroutes$" },
        action: neutronError(400, "RoutesExhausted", "The number of routes exceeds the maximum 30."),
      }),
    },
    {
      name: "the namespace has no room for ConfigMaps",
      condition: "ConfigRendered",
      reason: "RenderFailed",
      says: [
        new RegExp(`ConfigMap "${namespace}/gw-`),
        /; raise that ResourceQuota or delete what is unused/,
      ],
      fault: quota("configmaps", async (own) => {
        const { items } = await getJson<{ items: unknown[] }>(["-n", own.namespace, "configmaps"]);
        return { "count/configmaps": String(items.length) };
      }),
      byItself: true,
    },
    {
      name: "admission refuses the Deployment",
      condition: "DeploymentReady",
      reason: "DeploymentUnavailable",
      says: [
        new RegExp(`Deployment "${namespace}/gw"`),
        /no Deployments on Mondays/,
        /; meet that admission rule/,
      ],
      fault: refusal,
    },
    {
      name: "the namespace has no room for pods",
      condition: "DeploymentReady",
      reason: "DeploymentUnavailable",
      says: [/Deployment gw/, /; raise that ResourceQuota or delete what is unused/],
      fault: quota("pods", () => Promise.resolve({ pods: "0" })),
    },
  ];
}
