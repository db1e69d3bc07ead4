/** The built-in kinds that the product touches, and the NetworkAttachmentDefinition. */
import type { Deployment } from "kubernetes-types/apps/v1.d.ts";
import type { Lease } from "kubernetes-types/coordination/v1.d.ts";
import type {
  ConfigMap,
  Namespace,
  Node,
  Pod,
  Secret,
  Service,
  ServiceAccount,
} from "kubernetes-types/core/v1.d.ts";
import type { NetworkPolicy } from "kubernetes-types/networking/v1.d.ts";
import type { Role, RoleBinding } from "kubernetes-types/rbac/v1.d.ts";
import type { ObjectMeta } from "kubernetes-types/meta/v1.d.ts";
import { clusterWide, namespaced } from "./resource.ts";

export type {
  ConfigMap,
  Deployment,
  Lease,
  Namespace,
  NetworkPolicy,
  Node,
  Pod,
  Role,
  RoleBinding,
  Secret,
  Service,
  ServiceAccount,
};

/** `spec.config` is a CNI configuration as a JSON string (Network Plumbing WG, "Multi-Network CRD" v1). */
export interface NetworkAttachmentDefinition {
  apiVersion?: "k8s.cni.cncf.io/v1";
  kind?: "NetworkAttachmentDefinition";
  metadata?: ObjectMeta;
  spec?: { config?: string };
}

/** An Event of events.k8s.io/v1 as it is written here; times are RFC 3339 with microseconds. */
export interface KubeEvent {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
  eventTime: string;
  reportingController: string;
  reportingInstance: string;
  action: string;
  reason: string;
  type: "Normal" | "Warning";
  note: string;
  regarding: ObjectReference;
  series?: { count: number; lastObservedTime: string };
}

/** What an Event is about. */
export interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  resourceVersion?: string;
}

export const NAMESPACES = clusterWide<Namespace>("v1", "namespaces", "Namespace");
export const NODES = clusterWide<Node>("v1", "nodes", "Node");
export const PODS = namespaced<Pod>("v1", "pods", "Pod");
export const SECRETS = namespaced<Secret>("v1", "secrets", "Secret");
export const CONFIG_MAPS = namespaced<ConfigMap>("v1", "configmaps", "ConfigMap");
export const SERVICES = namespaced<Service>("v1", "services", "Service");
export const SERVICE_ACCOUNTS = namespaced<ServiceAccount>("v1", "serviceaccounts", "ServiceAccount");
export const DEPLOYMENTS = namespaced<Deployment>("apps/v1", "deployments", "Deployment");
export const ROLES = namespaced<Role>("rbac.authorization.k8s.io/v1", "roles", "Role");
export const ROLE_BINDINGS = namespaced<RoleBinding>(
  "rbac.authorization.k8s.io/v1",
  "rolebindings",
  "RoleBinding",
);
export const NETWORK_POLICIES = namespaced<NetworkPolicy>(
  "networking.k8s.io/v1",
  "networkpolicies",
  "NetworkPolicy",
);
export const LEASES = namespaced<Lease>("coordination.k8s.io/v1", "leases", "Lease");
export const EVENTS = namespaced<KubeEvent>("events.k8s.io/v1", "events", "Event");
export const NETWORK_ATTACHMENT_DEFINITIONS = namespaced<NetworkAttachmentDefinition>(
  "k8s.cni.cncf.io/v1",
  "network-attachment-definitions",
  "NetworkAttachmentDefinition",
);
