// The operator as tests have it: the compiled executables, installed by the chart; and a tenant's namespace with a
// gateway, a Service to expose and a pod that calls.

import { parse } from "yaml";
import type { IPsecGateway } from "../../src/api/ipsec_gateway.ts";
import { attempt, CACHE, run, type RunOptions, until } from "./command.ts";
import { connectAs } from "./cloud.ts";
import { load, PARTNER_ADDRESS } from "./partner.ts";
import { PROXY_AUTH_URL } from "./proxy.ts";

export const KUBECONFIG = Deno.env.get("KUBECONFIG") ?? `${CACHE}/k8s/run/kc/admin.kubeconfig`;
export const OPERATOR_NAMESPACE = "ipsec-system";
/** Where the chart is, from any directory. */
const CHART = new URL("../../charts/ipsec-operator", import.meta.url).pathname;

const ENV = {
  PATH: `${CACHE}/k8s/bin-one:${Deno.env.get("PATH") ?? ""}`,
  KUBECONFIG,
  HOME: Deno.env.get("HOME") ?? "/root",
};

/** kubectl as the cluster's admin. Throws with what it said when it fails. */
export function kubectl(args: readonly string[], options: RunOptions = {}): Promise<string> {
  return run([`${CACHE}/k8s/bin-one/kubectl`, ...args], { ...options, env: ENV });
}

/** kubectl's exit code and output, whatever they are. */
export function tryKubectl(args: readonly string[], options: RunOptions = {}): ReturnType<typeof attempt> {
  return attempt([`${CACHE}/k8s/bin-one/kubectl`, ...args], { ...options, env: ENV });
}

/** An object or list as JSON. */
export async function getJson<T>(args: readonly string[]): Promise<T> {
  return JSON.parse(await kubectl(["get", ...args, "-o", "json"])) as T;
}

export async function apply(objects: readonly unknown[]): Promise<void> {
  await kubectl(["apply", "-f", "-"], {
    input: objects.map((object) => JSON.stringify(object)).join("\n---\n"),
  });
}

/** The cloud that the seed made for the tenant, as clouds.yaml that leads through the fault proxy. */
export function cloudsYaml(authUrl: string = PROXY_AUTH_URL, password = "tenantpw"): string {
  return JSON.stringify({
    clouds: {
      lab: {
        auth: {
          auth_url: authUrl,
          username: "tenant",
          password,
          project_name: "tenant",
          user_domain_name: "Default",
          project_domain_name: "Default",
        },
        region_name: "RegionOne",
      },
    },
  });
}

/** Chart values for the lab; `more` are laid over them. */
async function values(more: Readonly<Record<string, unknown>>): Promise<Record<string, unknown>> {
  const cloud = await connectAs("tenant");
  const networks = await cloud.list("networks");
  const external = networks.find((network) => network["router:external"]);
  const own = networks.find((network) => network.name === "tenant-net");
  const image = (name: string) => ({ repository: `localhost/ipsec-operator-${name}`, tag: "dev" });
  return {
    image: {
      controller: image("controller"),
      statusAgent: image("status-agent"),
      strongswan: image("strongswan"),
      pullPolicy: "Never",
    },
    openstack: {
      cloudSecretName: "clouds",
      cloud: "lab",
      networkID: own?.id,
      externalNetworkID: external?.id,
      allowedRoutedCIDRs: ["192.168.0.0/16"],
    },
    serviceCIDRPool: ["100.64.0.0/16"],
    ...more,
  };
}

/**
 * Installs the operator by helm, or brings the one that is there to these values; returns when it is available and
 * leads. Without `more` it is the same for every test, so that this costs little when it is there already.
 */
export async function installOperator(more: Readonly<Record<string, unknown>> = {}): Promise<void> {
  await tryKubectl(["create", "namespace", OPERATOR_NAMESPACE]);
  const secret = {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "clouds", namespace: OPERATOR_NAMESPACE },
    stringData: { "clouds.yaml": cloudsYaml() },
  };
  await apply([secret]);
  await run(
    [
      "helm",
      "upgrade",
      "--install",
      "ipsec-operator",
      CHART,
      "-n",
      OPERATOR_NAMESPACE,
      "--wait",
      "--timeout",
      "2m",
      "-f",
      "-",
    ],
    { input: JSON.stringify(await values(more)), env: ENV, timeoutMs: 150_000 },
  );
  await until("the operator leads", async () => {
    const lease = await tryKubectl([
      "-n",
      OPERATOR_NAMESPACE,
      "get",
      "lease",
      "ipsec-operator",
      "-o",
      "jsonpath={.spec.holderIdentity}",
    ]);
    const pods = await kubectl([
      "-n",
      OPERATOR_NAMESPACE,
      "get",
      "pods",
      "-l",
      "app.kubernetes.io/name=ipsec-operator",
      "-o",
      "name",
    ]);
    return pods.trim().split("\n").some((pod) => lease.stdout.startsWith(pod.replace("pod/", "")));
  }, { timeoutMs: 60_000 });
}

export type Conditions = Readonly<
  Record<string, { readonly status: string; readonly reason: string; readonly message: string }>
>;

/** A namespace with what one gateway needs. */
export interface Tenant extends AsyncDisposable {
  readonly namespace: string;
  /** The pre-shared key of its Secret `keys`. */
  readonly key: string;
  /** kubectl in the namespace. */
  kubectl(args: readonly string[], options?: RunOptions): Promise<string>;
  /** Applies an IPsecGateway `gw` with this spec over the usual one. */
  applyGateway(spec?: Readonly<Record<string, unknown>>): Promise<void>;
  gateway(): Promise<IPsecGateway>;
  conditions(): Promise<Conditions>;
  /** Waits until the condition is so; returns it. */
  condition(
    type: string,
    status: "True" | "False",
    options?: { reason?: string; timeoutMs?: number },
  ): Promise<Conditions[string]>;
  /** The state of the tunnel `berlin` as the status has it. */
  tunnelState(): Promise<string | undefined>;
  /** Loads the partner's side of tunnel `berlin` for this gateway; needs status.floatingIP. */
  loadPartner(options?: { key?: string }): Promise<void>;
  /** Applies the gateway, waits for all conditions, loads the partner, waits until the tunnel is ESTABLISHED. */
  establish(spec?: Readonly<Record<string, unknown>>): Promise<void>;
  /** The gateway's running pod. */
  pod(): Promise<string>;
  /** Runs in a container of the gateway's pod. */
  exec(container: string, argv: readonly string[], options?: RunOptions): Promise<string>;
  /** Runs in the ordinary pod `client`. */
  client(script: string): Promise<string>;
}

/** Pod `web` behind Service `web` (TCP 80, UDP 53, says whom it saw and echoes), and pod `client`, both on node2. */
function workloads(namespace: string): unknown[] {
  const pod = (name: string, command: string) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, labels: { app: name } },
    spec: {
      nodeSelector: { "kubernetes.io/hostname": "node2" },
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      containers: [{
        name: "c",
        image: "localhost/toolbox:1",
        imagePullPolicy: "Never",
        command: ["sh", "-c", command],
      }],
    },
  });
  return [
    pod(
      "web",
      "socat TCP-LISTEN:80,fork,reuseaddr SYSTEM:'echo web saw $SOCAT_PEERADDR; cat' & " +
        "socat UDP-LISTEN:53,fork,reuseaddr SYSTEM:'echo web-udp saw $SOCAT_PEERADDR; head -c 4' & wait",
    ),
    pod("client", "trap 'exit 0' TERM; sleep 86400 & wait"),
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "web", namespace },
      spec: {
        selector: { app: "web" },
        ports: [{ name: "http", port: 80 }, { name: "dns", port: 53, protocol: "UDP" }],
      },
    },
  ];
}

/** The usual gateway: one tunnel, one exposure, one reverse exposure. */
function usualSpec(): Record<string, unknown> {
  return {
    psk: { secretName: "keys" },
    tunnels: [{
      name: "berlin",
      peer: { address: PARTNER_ADDRESS },
      remoteSubnets: ["192.168.77.0/24"],
      ike: { proposals: ["aes256gcm16-prfsha256-ecp256"], dpdDelay: "10s" },
      esp: { proposals: ["aes256gcm16"] },
    }],
    exposures: [{ name: "web", port: 8080, target: { service: { name: "web", port: 80 } } }],
    reverseExposures: [{ name: "api", port: 80, remoteAddress: "192.168.77.10", remotePort: 8080 }],
  };
}

/** Makes the namespace; disposing deletes the gateway, then the namespace. */
export async function tenant(options: { workloads?: boolean } = {}): Promise<Tenant> {
  const namespace = `t-${crypto.randomUUID().slice(0, 8)}`;
  const key = `psk-${crypto.randomUUID()}`;
  await kubectl(["create", "namespace", namespace]);
  await apply([
    { apiVersion: "v1", kind: "Secret", metadata: { name: "keys", namespace }, stringData: { psk: key } },
    ...(options.workloads ? workloads(namespace) : []),
  ]);
  if (options.workloads === undefined || !options.workloads) {
    // An exposure needs its Service, not its pods.
    await apply([workloads(namespace).at(-1)]);
  }
  const own = (args: readonly string[], more: RunOptions = {}) => kubectl(["-n", namespace, ...args], more);
  const self: Tenant = {
    namespace,
    key,
    kubectl: own,
    async applyGateway(spec = {}) {
      await apply([{
        apiVersion: "ipsec.bnerd.net/v1alpha1",
        kind: "IPsecGateway",
        metadata: { name: "gw", namespace },
        spec: { ...usualSpec(), ...spec },
      }]);
    },
    gateway: () => getJson<IPsecGateway>(["-n", namespace, "ipsecgateway", "gw"]),
    async conditions() {
      const { status } = await self.gateway();
      return Object.fromEntries((status?.conditions ?? []).map(({ type, ...rest }) => [type, rest]));
    },
    async condition(type, status, { reason, timeoutMs = 60_000 } = {}) {
      let last: Conditions = {};
      try {
        return await until(`${type} is ${status}${reason ? `/${reason}` : ""}`, async () => {
          last = await self.conditions();
          const found = last[type];
          return found?.status === status && (reason === undefined || found.reason === reason)
            ? found
            : undefined;
        }, { timeoutMs, intervalMs: 250 });
      } catch (cause) {
        throw new Error(
          `Cannot see ${type}=${status} of ${namespace}/gw: its conditions are ${JSON.stringify(last)}`,
          { cause },
        );
      }
    },
    async tunnelState() {
      return (await self.gateway()).status?.tunnels?.find((tunnel) => tunnel.name === "berlin")?.state;
    },
    async loadPartner({ key: other } = {}) {
      const { status } = await self.gateway();
      const remote = status?.floatingIP?.address ?? "";
      await load([{
        name: "gw",
        remote,
        key: other ?? key,
        children: [{ name: "net", remoteTs: [status?.serviceCIDR ?? ""] }],
      }]);
    },
    async establish(spec) {
      await self.applyGateway(spec);
      await self.condition("DeploymentReady", "True", { timeoutMs: 120_000 });
      await self.loadPartner();
      await until("the tunnel is ESTABLISHED", async () => (await self.tunnelState()) === "ESTABLISHED", {
        timeoutMs: 90_000,
        intervalMs: 250,
      });
      if (options.workloads) {
        await own(["wait", "--for=condition=Ready", "pod/web", "pod/client", "--timeout=60s"], {
          timeoutMs: 70_000,
        });
      }
    },
    async pod() {
      return await until("the gateway's pod runs", async () => {
        const names = await own([
          "get",
          "pod",
          "-l",
          "ipsec.bnerd.net/gateway=gw",
          "--field-selector=status.phase=Running",
          "-o",
          "name",
        ]);
        return names.trim().split("\n").filter(Boolean)[0]?.replace("pod/", "");
      }, { timeoutMs: 60_000 });
    },
    exec: async (container, argv, more = {}) =>
      await own(["exec", await self.pod(), "-c", container, "--", ...argv], more),
    client: (script) => own(["exec", "client", "--", "sh", "-c", script]),
    async [Symbol.asyncDispose]() {
      await tryKubectl(["-n", namespace, "delete", "ipsecgateway", "--all", "--timeout=60s"], {
        timeoutMs: 70_000,
      });
      await tryKubectl(["delete", "namespace", namespace, "--timeout=60s"], { timeoutMs: 70_000 });
    },
  };
  return self;
}

/** A YAML document as an object, for tests that start from docs/examples. */
export function fromYaml(text: string): unknown {
  return parse(text);
}
