// The gateway's Deployment. Only what stands in its pod template restarts the pod: the attachment's name, the node, the
// images, resources, tolerations and the Secret's name. Configuration and keys reach the pod by its volumes.
import type { Deployment } from "kubernetes-types/apps/v1";
import type {
  Affinity,
  Container,
  PodSpec,
  ResourceRequirements,
  Volume,
  VolumeMount,
} from "kubernetes-types/core/v1";
import type { IPsecGateway } from "../../api/ipsec_gateway.ts";
import { objectLabels, objectNames, ownerReference, podSelector } from "../names.ts";

export interface GatewayImages {
  readonly strongswan: string;
  readonly statusAgent: string;
  readonly pullPolicy?: "Always" | "IfNotPresent" | "Never";
  readonly pullSecrets?: readonly string[];
}

export interface DeploymentInput {
  readonly gateway: IPsecGateway;
  readonly attachment: string;
  readonly nodeName: string | undefined;
  readonly replicas: 0 | 1;
  readonly images: GatewayImages;
  /** How often the agent looks, in seconds. */
  readonly agentIntervalSeconds: number;
}

const RUN: VolumeMount = { name: "run", mountPath: "/run/ipsec" };

function container(name: string, image: string, capabilities: string[], rest: Partial<Container>): Container {
  return {
    name,
    image,
    ...rest,
    securityContext: {
      runAsUser: 0,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"], add: capabilities },
    },
  };
}

/** Quantities as the strings that the API server stores them as. */
function quantities(resources: NonNullable<IPsecGateway["spec"]["resources"]>): ResourceRequirements {
  const strings = (amounts: Readonly<Record<string, string | number>> = {}) =>
    Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, String(amount)]));
  return {
    ...(resources.requests ? { requests: strings(resources.requests) } : {}),
    ...(resources.limits ? { limits: strings(resources.limits) } : {}),
  };
}

/** On exactly this node. Not spec.nodeName: the scheduler must still be able to say no. */
function onNode(node: string): Affinity {
  const matchFields = [{ key: "metadata.name", operator: "In", values: [node] }];
  return {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] },
    },
  };
}

function volumes(gateway: IPsecGateway): Volume[] {
  const names = objectNames(gateway.metadata.name ?? "");
  return [
    { name: "nat", configMap: { name: names.nat } },
    { name: "psk", secret: { secretName: gateway.spec.psk.secretName, defaultMode: 0o400 } },
    { name: "run", emptyDir: { medium: "Memory", sizeLimit: "16Mi" } },
    { name: "swanctl", configMap: { name: names.swanctl } },
    { name: "tun", hostPath: { path: "/dev/net/tun", type: "CharDevice" } },
  ];
}

function containers(input: DeploymentInput): Container[] {
  const { gateway, images } = input;
  const policy = images.pullPolicy ? { imagePullPolicy: images.pullPolicy } : {};
  return [
    container("strongswan", images.strongswan, ["NET_ADMIN", "NET_BIND_SERVICE"], {
      ...policy,
      command: ["/usr/local/sbin/charon-supervisor"],
      env: [{ name: "STRONGSWAN_CONF", value: "/run/ipsec/strongswan.conf" }],
      readinessProbe: { exec: { command: ["test", "-S", "/run/ipsec/charon.vici"] }, periodSeconds: 2 },
      ...(gateway.spec.resources ? { resources: quantities(gateway.spec.resources) } : {}),
      volumeMounts: [
        RUN,
        { name: "swanctl", mountPath: "/etc/swanctl-rendered", readOnly: true },
        { name: "tun", mountPath: "/dev/net/tun" },
      ],
    }),
    container("status-agent", images.statusAgent, ["NET_ADMIN"], {
      ...policy,
      args: ["gateway", `--interval=${input.agentIntervalSeconds}s`],
      env: [
        { name: "POD_NAME", valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "metadata.name" } } },
      ],
      ports: [{ name: "metrics", containerPort: 9903, protocol: "TCP" }],
      livenessProbe: {
        httpGet: { path: "/healthz", port: "metrics" },
        periodSeconds: 10,
        failureThreshold: 6,
      },
      readinessProbe: { httpGet: { path: "/readyz", port: "metrics" }, periodSeconds: 2 },
      volumeMounts: [
        RUN,
        { name: "psk", mountPath: "/etc/swanctl-psk", readOnly: true },
        { name: "swanctl", mountPath: "/etc/swanctl-rendered", readOnly: true },
      ],
    }),
    container("init-nat", images.strongswan, ["NET_ADMIN"], {
      ...policy,
      command: ["/usr/local/sbin/nat-apply"],
      volumeMounts: [{ name: "nat", mountPath: "/etc/nat", readOnly: true }, { ...RUN, readOnly: true }],
    }),
  ];
}

/** The Deployment as it is applied: `replicas: 0` while the floating IP is still elsewhere or the port is moving. */
export function renderDeployment(input: DeploymentInput): Deployment {
  const { gateway, images } = input;
  const name = gateway.metadata.name ?? "";
  const spec: PodSpec = {
    automountServiceAccountToken: true,
    containers: containers(input),
    // The Services of the namespace would become variables, and those named like our flags would be read as such.
    enableServiceLinks: false,
    ...(input.nodeName === undefined ? {} : { affinity: onNode(input.nodeName) }),
    // ICMP probes need no NET_RAW with this one; it is a safe sysctl.
    securityContext: { sysctls: [{ name: "net.ipv4.ping_group_range", value: "0 65535" }] },
    serviceAccountName: objectNames(name).serviceAccount,
    // Every container's PID 1 handles TERM: the NIC is free at once.
    terminationGracePeriodSeconds: 5,
    ...(gateway.spec.tolerations ? { tolerations: [...gateway.spec.tolerations] } : {}),
    ...(images.pullSecrets?.length
      ? { imagePullSecrets: images.pullSecrets.map((secret) => ({ name: secret })) }
      : {}),
    volumes: volumes(gateway),
  };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      name,
      namespace: gateway.metadata.namespace ?? "",
      labels: objectLabels(name),
      ownerReferences: [ownerReference(gateway)],
    },
    spec: {
      replicas: input.replicas,
      // The NIC can be in one pod only: a rolling update would wait for ever.
      strategy: { type: "Recreate" },
      selector: { matchLabels: podSelector(name) },
      template: {
        metadata: {
          labels: objectLabels(name),
          annotations: {
            "k8s.v1.cni.cncf.io/networks": `[{"name":"${input.attachment}","interface":"net1"}]`,
            "kubectl.kubernetes.io/default-container": "strongswan",
          },
        },
        spec,
      },
    },
  };
}
