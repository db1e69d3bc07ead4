// The kind IPsecGateway as it comes from the API server, and the names that belong to it.
import type { ObjectMeta } from "kubernetes-types/meta/v1";
import { namespaced } from "../kube/resource.ts";
import type { IPsecGatewaySpec, IPsecGatewayStatus } from "./ipsec_gateway_types.ts";

export type { IPsecGatewaySpec, IPsecGatewayStatus } from "./ipsec_gateway_types.ts";

export const GROUP = "ipsec.bnerd.net";
export const VERSION = "v1alpha1";
export const API_VERSION = `${GROUP}/${VERSION}`;
export const GATEWAY_KIND = "IPsecGateway";
export const GATEWAY_PLURAL = "ipsecgateways";

/** Field managers of server-side apply: each owns its part of the status (DESIGN: truth has one writer). */
export const CONTROLLER_MANAGER = "ipsec-operator";
export const AGENT_MANAGER = "ipsec-status-agent";

/** Finalizer that holds a gateway until nothing of it is left. */
export const CLEANUP_FINALIZER = `${GROUP}/cleanup`;

/** Labels of everything that belongs to a gateway in Kubernetes. */
export const GATEWAY_LABEL = `${GROUP}/gateway`;
export const MANAGED_BY_LABEL = "app.kubernetes.io/managed-by";
export const MANAGED_BY = "ipsec-operator";

export interface IPsecGateway {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
  readonly spec: IPsecGatewaySpec;
  readonly status?: IPsecGatewayStatus;
}

/** The resource, for calls to the API server. */
export const GATEWAYS = namespaced<IPsecGateway>(API_VERSION, GATEWAY_PLURAL, GATEWAY_KIND);

export type TunnelSpec = IPsecGatewaySpec["tunnels"][number];
export type ExposureSpec = NonNullable<IPsecGatewaySpec["exposures"]>[number];
export type ReverseExposureSpec = NonNullable<IPsecGatewaySpec["reverseExposures"]>[number];
export type PortStatus = Required<NonNullable<IPsecGatewayStatus["port"]>>;
export type FloatingIPStatus = Required<NonNullable<IPsecGatewayStatus["floatingIP"]>>;

/** An agent that has been silent for longer than this has an unknown state, in milliseconds. */
export const HEARTBEAT_GRACE_MS = 120_000;

/** "namespace/name", the way a person names the object. */
export function nameOf(gateway: Pick<IPsecGateway, "metadata">): string {
  return `${gateway.metadata.namespace ?? ""}/${gateway.metadata.name ?? ""}`;
}

/** A condition type in the order of the steps that decide them. */
export const CONDITION_TYPES = [
  "Validated",
  "Allocated",
  "PortReady",
  "PortAttached",
  "FIPAttached",
  "RoutingReady",
  "ConfigRendered",
  "DeploymentReady",
] as const;

export type ConditionType = typeof CONDITION_TYPES[number];

/**
 * Reasons of the conditions. True has one reason each; False tells what to look at; nothing here is ever Unknown,
 * since a step that could not look has failed and says so.
 */
export type Reason =
  /** Validated False */
  | "InvalidSpec"
  | "DuplicatePeer"
  | "SecretNotFound"
  | "SecretKeyMissing"
  | "CloudCredentialsInvalid"
  | "CloudUnreachable"
  | "NotAllowed"
  | "PeerUnresolvable"
  /** Validated True */
  | "Valid"
  /** Allocated False, True */
  | "AllocationFailed"
  | "Allocated"
  /** PortReady False, True */
  | "EnsureSecurityGroupFailed"
  | "EnsurePortFailed"
  | "PortReady"
  /** PortAttached False, True */
  | "NoReadyNode"
  | "ServerNotFound"
  | "DetachPending"
  | "AttachFailed"
  | "Attached"
  /** FIPAttached False, True */
  | "EnsureFIPFailed"
  | "Associated"
  /** RoutingReady False, True */
  | "EnsureRoutingFailed"
  | "LimitReached"
  | "NotRequired"
  | "Routed"
  /** ConfigRendered False, True */
  | "RenderFailed"
  | "Rendered"
  /** DeploymentReady False, True */
  | "DeploymentUnavailable"
  | "AwaitingFloatingIP"
  | "Available";
