// The controller: watches IPsecGateways and makes them so. `main` only wires: flags, caches, election, servers.
import { isIPv4, isIPv6 } from "node:net";
import { createClouds } from "./src/gateway/clouds.ts";
import { createGatewayController } from "./src/gateway/controller.ts";
import { registerGatewayMetrics } from "./src/gateway/metrics.ts";
import type { GatewayOptions } from "./src/gateway/options.ts";
import { createKubeClient } from "./src/kube/client.ts";
import { findConnection } from "./src/kube/connect.ts";
import { createEventRecorder } from "./src/kube/events.ts";
import { runElection } from "./src/kube/lease.ts";
import { parseCidr } from "./src/ledger/service_cidr.ts";
import { defineFlags, flagsOrExit, type FlagValues, LOG_FLAGS } from "./src/process/flags.ts";
import { serveHealth } from "./src/process/health.ts";
import { createLog } from "./src/process/log.ts";
import { createMetrics } from "./src/process/metrics.ts";
import { watchShutdown } from "./src/process/shutdown.ts";
import config from "./deno.json" with { type: "json" };

/** The name of the leader's Lease. */
const LEASE = "ipsec-operator";

const uuid = (value: string) =>
  /^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/i.test(value) ? undefined : "must be a UUID";

export const FLAGS = defineFlags({
  ...LOG_FLAGS,
  "kubeconfig": {
    type: "string",
    value: "FILE",
    help: "Kubeconfig to use; by default $KUBECONFIG, else the pod's ServiceAccount.",
  },
  "metrics-bind-address": {
    type: "address",
    default: ":8080",
    help: "Where /metrics is served; 0 turns it off.",
  },
  "health-probe-bind-address": {
    type: "address",
    default: ":8081",
    help: "Where /healthz and /readyz are served; 0 turns them off.",
  },
  "leader-elect": {
    type: "boolean",
    default: true,
    help: "Work only while holding a Lease, so that several replicas can run.",
  },
  "leader-election-namespace": {
    type: "string",
    value: "NAMESPACE",
    help: "Namespace of that Lease; by default the pod's.",
  },
  "watch-namespaces": {
    type: "list",
    default: [],
    value: "NAMESPACES",
    help: "Only gateways in these namespaces; by default in all.",
  },
  "workers": {
    type: "integer",
    default: 16,
    check: (n) => n >= 1 && n <= 64 ? undefined : "must be 1 to 64",
    help: "How many gateways are reconciled at the same time.",
  },
  "service-cidr-pool": {
    type: "list",
    required: true,
    value: "CIDRS",
    check: poolProblem,
    help: "CIDRs that are cut into /24s; each gateway gets one, and partners see it.",
  },
  "data-plane": {
    type: "enum",
    values: ["auto", "xfrm", "libipsec"],
    default: "auto",
    help: "Driver that carries the packets.",
  },
  "render-ahead": {
    type: "boolean",
    default: true,
    help: "Render configuration while a pinned floating IP is still on another port.",
  },
  "agent-interval": {
    type: "duration",
    default: 15_000,
    check: (ms) => ms >= 1000 ? undefined : "must be 1s or more",
    help: "How often the status-agent looks at strongSwan without being woken.",
  },
  "node-grace-period": {
    type: "duration",
    default: 60_000,
    help: "A node that is NotReady for longer than this is left by its gateways.",
  },
  "image-strongswan": {
    type: "string",
    required: true,
    value: "IMAGE",
    help: "Image of the strongswan and init-nat containers.",
  },
  "image-status-agent": {
    type: "string",
    required: true,
    value: "IMAGE",
    help: "Image of the status-agent container.",
  },
  "image-pull-policy": {
    type: "enum",
    values: ["Always", "IfNotPresent", "Never"],
    default: "IfNotPresent",
    help: "Pull policy of these images.",
  },
  "image-pull-secrets": {
    type: "list",
    default: [],
    value: "NAMES",
    help: "Pull Secrets of gateway pods, in the gateway's namespace.",
  },
  "allow-image-override": {
    type: "boolean",
    default: false,
    help: "Let spec.images of a gateway name other images.",
  },
  "clouds-file": {
    type: "string",
    value: "FILE",
    help: "clouds.yaml for gateways that bring no credentials; a file cacert beside it is used too.",
  },
  "cloud": { type: "string", value: "NAME", help: "Cloud in that file; by default its only one." },
  "network-id": {
    type: "string",
    value: "UUID",
    check: uuid,
    help: "Network that gateways' ports are made on by default.",
  },
  "subnet-id": {
    type: "string",
    value: "UUID",
    check: uuid,
    help: "Subnet of that network; by default its first IPv4 subnet with a gateway.",
  },
  "external-network-id": {
    type: "string",
    value: "UUID",
    check: uuid,
    help: "External network that floating IPs come from by default.",
  },
  "allowed-network-ids": {
    type: "list",
    default: [],
    value: "UUIDS",
    check: (ids) => ids.map(uuid).find(Boolean),
    help: "Networks that a tenant may name with the operator's credentials.",
  },
  "allowed-floating-ips": {
    type: "list",
    default: [],
    value: "ADDRESSES",
    check: (addresses) =>
      addresses.every((address) => isIPv4(address)) ? undefined : "must be IPv4 addresses",
    help: "Addresses that a tenant may pin with the operator's credentials.",
  },
  "allowed-routed-cidrs": {
    type: "list",
    default: [],
    value: "CIDRS",
    check: cidrProblem,
    help:
      "Networks that remote subnets of mode routed may lie in with the operator's credentials: they become routes of a shared router.",
  },
});

function cidrProblem(cidrs: readonly string[]): string | undefined {
  try {
    cidrs.forEach(parseCidr);
    return undefined;
  } catch (error) {
    return `must be IPv4 CIDRs: ${error instanceof Error ? error.message : error}`;
  }
}

function poolProblem(pools: readonly string[]): string | undefined {
  if (pools.length === 0) return "must have at least one CIDR";
  for (const pool of pools) {
    try {
      if (parseCidr(pool).length > 24) return `must be /24 or larger: ${pool} is smaller than one /24`;
    } catch (error) {
      return `must be IPv4 CIDRs: ${error instanceof Error ? error.message : error}`;
    }
  }
  return undefined;
}

type Flags = FlagValues<typeof FLAGS>;

/** What the gateways need to know of the flags. */
export function gatewayOptions(flags: Flags): GatewayOptions {
  const optional = <K extends string>(
    key: K,
    value: string | undefined,
  ) => (value ? { [key]: value } as Record<K, string> : {});
  return {
    serviceCIDRPool: flags["service-cidr-pool"],
    dataPlane: flags["data-plane"],
    renderAhead: flags["render-ahead"],
    agentIntervalSeconds: Math.round(flags["agent-interval"] / 1000),
    nodeGraceMs: flags["node-grace-period"],
    allowImageOverride: flags["allow-image-override"],
    images: {
      strongswan: flags["image-strongswan"],
      statusAgent: flags["image-status-agent"],
      pullPolicy: flags["image-pull-policy"],
      pullSecrets: flags["image-pull-secrets"],
    },
    openstack: {
      ...optional("cloudsFile", flags["clouds-file"]),
      ...optional("cloud", flags["cloud"]),
      ...optional("networkID", flags["network-id"]),
      ...optional("subnetID", flags["subnet-id"]),
      ...optional("externalNetworkID", flags["external-network-id"]),
      allowedNetworkIDs: flags["allowed-network-ids"],
      allowedFloatingIPs: flags["allowed-floating-ips"],
      allowedRoutedCIDRs: flags["allowed-routed-cidrs"],
    },
  };
}

/** IPv4 addresses of a name by the system's resolver, given up after 5 s. */
async function resolve(host: string, { signal }: { signal: AbortSignal }): Promise<readonly string[]> {
  if (isIPv6(host)) throw new Error("only IPv4 peers are supported");
  return await Deno.resolveDns(host, "A", { signal: AbortSignal.any([signal, AbortSignal.timeout(5_000)]) });
}

async function main(): Promise<number> {
  const flags = flagsOrExit(FLAGS, {
    args: Deno.args,
    env: (name) => Deno.env.get(name),
    program: "controller",
    version: config.version,
    about:
      "makes IPsecGateway objects so: OpenStack ports and floating IPs, strongSwan pods, a status that is true.",
  });
  const log = createLog({ level: flags["log-level"] });
  using shutdown = watchShutdown({ log });
  const metrics = createMetrics({ version: config.version });
  const connection = await findConnection({ kubeconfig: flags.kubeconfig });
  using kube = createKubeClient(connection, {
    userAgent: `ipsec-operator/${config.version}`,
    onAnswer: metrics.kubeAnswer,
  });
  const options = gatewayOptions(flags);
  const instance = Deno.env.get("POD_NAME") ?? Deno.hostname();
  await using events = createEventRecorder(kube, { controller: "ipsec.bnerd.net/operator", instance, log });
  await using clouds = createClouds({
    kube,
    openstack: options.openstack,
    // A call without an answer ("timeout", "error") has no code.
    onRequest: ({ seconds, code, ...seen }) =>
      metrics.openstackAnswer({ ...seen, code: Number(code) || 0, ms: seconds * 1000 }),
  });
  await using controller = createGatewayController({
    kube,
    clouds,
    options,
    events,
    log,
    resolve,
    apiServer: Deno.env.get("KUBERNETES_SERVICE_HOST"),
    workers: flags.workers,
    queueMetrics: metrics.queue("ipsecgateway"),
    ...(flags["watch-namespaces"].length ? { watchNamespaces: flags["watch-namespaces"] } : {}),
  });
  registerGatewayMetrics(metrics.registry, controller, options.serviceCIDRPool);
  const ready = { caches: () => controller.hasSynced() ? undefined : "the caches are not filled yet" };
  await using servers = new AsyncDisposableStack();
  if (flags["metrics-bind-address"] !== "0") {
    servers.use(serveHealth({ address: flags["metrics-bind-address"], metrics: metrics.text, log }));
  }
  if (flags["health-probe-bind-address"] !== "0") {
    servers.use(serveHealth({ address: flags["health-probe-bind-address"], ready, log }));
  }
  log.info("Started", {
    version: config.version,
    pool: options.serviceCIDRPool,
    dataPlane: options.dataPlane,
  });
  if (!flags["leader-elect"]) {
    await controller.run(shutdown.signal);
    return 0;
  }
  const outcome = await runElection(kube, {
    namespace: flags["leader-election-namespace"] ?? Deno.env.get("POD_NAMESPACE") ?? connection.namespace ??
      "default",
    name: LEASE,
    identity: `${instance}_${crypto.randomUUID()}`,
    signal: shutdown.signal,
    lead: (signal) => controller.run(signal),
    onChange: (leader) => metrics.leader(LEASE, leader),
    onLost: () => {
      // Another may begin in 5 s; what still runs here must not go on until then. The next start remembers nothing.
      log.error("Lost the Lease: ending at once, another leader may be at work");
      Deno.exit(1);
    },
    log,
  });
  return outcome === "lost" ? 1 : 0;
}

if (import.meta.main) {
  try {
    Deno.exit(await main());
  } catch (error) {
    createLog().error("Cannot run", { error: error instanceof Error ? error : String(error) });
    Deno.exit(1);
  }
}
