// What the gateway's pod may do, and who may reach it: ServiceAccount, Role, RoleBinding, NetworkPolicy, Services.
import type { Service, ServiceAccount } from "kubernetes-types/core/v1";
import type { NetworkPolicy } from "kubernetes-types/networking/v1";
import type { Role, RoleBinding } from "kubernetes-types/rbac/v1";
import { GATEWAY_PLURAL, GROUP, type IPsecGateway } from "../../api/ipsec_gateway.ts";
import { objectLabels, objectNames, ownerReference, podSelector, reverseServiceName } from "../names.ts";
import { reversePorts } from "../numbers.ts";

function metadata(gateway: IPsecGateway, name: string) {
  return {
    name,
    namespace: gateway.metadata.namespace ?? "",
    labels: objectLabels(gateway.metadata.name ?? ""),
    ownerReferences: [ownerReference(gateway)],
  };
}

/** The identity of the status-agent. */
export function renderServiceAccount(gateway: IPsecGateway): ServiceAccount {
  return {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: metadata(gateway, objectNames(gateway.metadata.name ?? "").serviceAccount),
    automountServiceAccountToken: false,
  };
}

/** The agent may read its own object, patch its status and write Events; nothing else. */
export function renderRole(gateway: IPsecGateway): Role {
  const name = gateway.metadata.name ?? "";
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata: metadata(gateway, objectNames(name).role),
    rules: [
      { apiGroups: [GROUP], resources: [GATEWAY_PLURAL], resourceNames: [name], verbs: ["get"] },
      {
        apiGroups: [GROUP],
        resources: [`${GATEWAY_PLURAL}/status`],
        resourceNames: [name],
        verbs: ["get", "patch"],
      },
      { apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"] },
    ],
  };
}

export function renderRoleBinding(gateway: IPsecGateway): RoleBinding {
  const names = objectNames(gateway.metadata.name ?? "");
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata: metadata(gateway, names.role),
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: names.role },
    subjects: [{
      kind: "ServiceAccount",
      name: names.serviceAccount,
      namespace: gateway.metadata.namespace ?? "",
    }],
  };
}

/**
 * Reachable inside the cluster: metrics, and the ports of the reverse exposures. What comes by net1 is not the CNI's
 * business; the fence in the pod and the port's security group see to it. Egress stays open: exposures lead anywhere.
 */
export function renderNetworkPolicy(gateway: IPsecGateway): NetworkPolicy {
  const exposures = gateway.spec.reverseExposures ?? [];
  const ports = reversePorts(exposures);
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: metadata(gateway, objectNames(gateway.metadata.name ?? "").networkPolicy),
    spec: {
      podSelector: { matchLabels: podSelector(gateway.metadata.name ?? "") },
      policyTypes: ["Ingress"],
      ingress: [{
        ports: [
          { port: 9903, protocol: "TCP" },
          ...exposures.map((exposure) => ({
            port: ports.get(exposure.name) ?? 0,
            protocol: exposure.protocol,
          })),
        ],
      }],
    },
  };
}

/** One Service for each reverse exposure. */
export function renderReverseServices(gateway: IPsecGateway): Service[] {
  const name = gateway.metadata.name ?? "";
  const exposures = gateway.spec.reverseExposures ?? [];
  const ports = reversePorts(exposures);
  return exposures.map((exposure) => ({
    apiVersion: "v1",
    kind: "Service",
    metadata: metadata(gateway, reverseServiceName(name, exposure.name)),
    spec: {
      type: "ClusterIP",
      selector: podSelector(name),
      ports: [{
        name: exposure.name,
        port: exposure.port,
        protocol: exposure.protocol,
        targetPort: ports.get(exposure.name) ?? 0,
      }],
    },
  }));
}
