// Names and labels of everything that belongs to a gateway.
import type { OwnerReference } from "kubernetes-types/meta/v1";
import {
  API_VERSION,
  GATEWAY_KIND,
  GATEWAY_LABEL,
  GROUP,
  type IPsecGateway,
  MANAGED_BY,
  MANAGED_BY_LABEL,
} from "../api/ipsec_gateway.ts";
import type { KubeObject } from "../kube/resource.ts";

/** Names of the Kubernetes objects of a gateway. */
export function objectNames(gateway: string): {
  readonly swanctl: string;
  readonly nat: string;
  readonly deployment: string;
  readonly serviceAccount: string;
  readonly role: string;
  readonly networkPolicy: string;
} {
  return {
    swanctl: `${gateway}-swanctl`,
    nat: `${gateway}-nat`,
    deployment: gateway,
    serviceAccount: `${gateway}-ipsec-gateway`,
    role: `${gateway}-ipsec-gateway`,
    networkPolicy: `${gateway}-ipsec-gateway`,
  };
}

/** Name of the Service of a reverse exposure. */
export function reverseServiceName(gateway: string, exposure: string): string {
  return `${gateway}-${exposure}`;
}

/**
 * Name of the NetworkAttachmentDefinition: it holds a hash of the NIC, so that a new port means a new name, and a new
 * name means a new pod.
 */
export async function attachmentName(gateway: string, macAddress: string, fixedIP: string): Promise<string> {
  const bytes = new TextEncoder().encode(`${macAddress.toLowerCase()}/${fixedIP}`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return `${gateway}-${[...digest.slice(0, 4)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Labels of the gateway's objects. */
export function objectLabels(gateway: string): Record<string, string> {
  return {
    "app.kubernetes.io/name": "ipsec-gateway",
    "app.kubernetes.io/instance": gateway,
    [MANAGED_BY_LABEL]: MANAGED_BY,
    [GATEWAY_LABEL]: gateway,
  };
}

/** What selects the gateway's pod. */
export function podSelector(gateway: string): Record<string, string> {
  return { "app.kubernetes.io/name": "ipsec-gateway", [GATEWAY_LABEL]: gateway };
}

/** The owner reference that makes an object part of the gateway. */
export function ownerReference(gateway: IPsecGateway): OwnerReference {
  return {
    apiVersion: API_VERSION,
    kind: GATEWAY_KIND,
    name: gateway.metadata.name ?? "",
    uid: gateway.metadata.uid ?? "",
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** Whether the object is this gateway's own. */
export function belongsTo(gateway: IPsecGateway, object: KubeObject): boolean {
  return object.metadata?.ownerReferences?.some((owner) => owner.uid === gateway.metadata.uid) ?? false;
}

/** Tag of every OpenStack resource of the gateway. */
export function ownerTag(gateway: IPsecGateway): string {
  return `${GROUP}/uid=${gateway.metadata.uid}`;
}

/** Tag of a floating IP that the gateway has pinned. */
export function pinnedTag(gateway: IPsecGateway): string {
  return `${GROUP}/pinned-by=${gateway.metadata.uid}`;
}

/** Name of the gateway's OpenStack resources. */
export function openstackName(gateway: IPsecGateway): string {
  return `ipsec-${gateway.metadata.namespace}-${gateway.metadata.name}`.slice(0, 200);
}

/** Description of the gateway's OpenStack resources: it names the gateway, for people and for adoption. */
export function openstackDescription(gateway: IPsecGateway): string {
  return `IPsecGateway ${gateway.metadata.namespace}/${gateway.metadata.name}`;
}
