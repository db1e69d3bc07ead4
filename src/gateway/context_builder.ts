// A whole operator for tests, without its controller: gateways on a loopback API server, OpenStack as a double, a clock
// that stands still. What the kubelet, the Deployment controller and the agent do, a test does by hand.
import { AGENT_MANAGER, GATEWAYS, type IPsecGateway, type IPsecGatewayStatus } from "../api/ipsec_gateway.ts";
import { createKubeClient } from "../kube/client.ts";
import type { Condition } from "../kube/conditions.ts";
import { type Deployment, DEPLOYMENTS, type Node, NODES, type Pod, PODS, SECRETS } from "../kube/kinds.ts";
import {
  type LoopbackApiServer,
  type RecordedRequest,
  startLoopbackApiServer,
  statusAnswer,
} from "../kube/loopback_apiserver.ts";
import { type KubeObject, pathOf, type Resource } from "../kube/resource.ts";
import { type CloudDouble, startCloudDouble } from "../openstack/cloud_double.ts";
import type { Item } from "../openstack/double_services.ts";
import { silentLog } from "../process/log.ts";
import type { Facts, GatewayContext, GatewayDeps } from "./context.ts";
import { gateway } from "./gateway_builder.ts";
import type { GatewayOptions } from "./options.ts";
import { type Reconciled, reconcileGateway, writeStatus } from "./reconcile.ts";
import { steps } from "./steps.ts";

/** When the clock of every world stands at first. */
export const NOW = new Date("2026-01-02T03:04:05Z");

/** The floating IP that gateways may pin here; it is there, on no port. */
export const PINNED = "198.51.100.9";

/** What the operator is started with here: the double's network, subnet and external network. */
export function gatewayOptions(fields: Partial<GatewayOptions> = {}): GatewayOptions {
  return {
    serviceCIDRPool: ["100.64.0.0/16"],
    images: { strongswan: "strongswan", statusAgent: "status-agent" },
    allowImageOverride: false,
    dataPlane: "auto",
    renderAhead: true,
    agentIntervalSeconds: 15,
    nodeGraceMs: 60_000,
    openstack: {
      networkID: "N",
      subnetID: "S",
      externalNetworkID: "X",
      allowedNetworkIDs: [],
      allowedFloatingIPs: [PINNED],
      allowedRoutedCIDRs: ["192.168.0.0/16"],
    },
    ...fields,
  };
}

/** A node; `notReadyMs`: for how long it has been NotReady. The double's servers are node-1 (A) and node-2 (B). */
export function node(
  name: string,
  { notReadyMs, cordoned = false, now = NOW }: { notReadyMs?: number; cordoned?: boolean; now?: Date } = {},
): Node {
  return {
    metadata: { name },
    spec: cordoned ? { unschedulable: true } : {},
    status: {
      conditions: [{
        type: "Ready",
        status: notReadyMs === undefined ? "True" : "False",
        lastTransitionTime: new Date(now.getTime() - (notReadyMs ?? 0)).toISOString(),
      }],
    },
  };
}

/** A gateway of its own name and uid in the same namespace. */
export function otherGateway(
  name: string,
  spec: Partial<IPsecGateway["spec"]> = {},
  rest: { status?: IPsecGatewayStatus; metadata?: Partial<IPsecGateway["metadata"]> } = {},
): IPsecGateway {
  return gateway(spec, { ...rest, metadata: { name, uid: `uid-of-${name}`, ...rest.metadata } });
}

export interface World extends AsyncDisposable {
  readonly api: LoopbackApiServer;
  readonly double: CloudDouble;
  readonly deps: GatewayDeps;
  /** What the clock shows; to be set by the test. */
  now: Date;
  /** The nodes; to be changed by the test. */
  nodes: Node[];
  /** Answers a request to the API server instead of it; to be set by the test. */
  intercept: (request: RecordedRequest) => Response | undefined;
  /** Stores a gateway as if somebody had written it. */
  put(object: IPsecGateway): IPsecGateway;
  /** Changes the spec as an edit does: with a new generation. */
  edit(spec: Partial<IPsecGateway["spec"]>, name?: string): void;
  /** Marks the gateway as being deleted. */
  remove(name?: string): void;
  gateway(name?: string): IPsecGateway;
  /** A condition of the stored gateway, as "Status/Reason"; undefined when it has none. */
  condition(type: string, name?: string): string | undefined;
  conditionOf(type: string, name?: string): Condition | undefined;
  /** An object of the gateways' namespace. */
  read<T extends KubeObject>(resource: Resource<T>, name: string): T | undefined;
  write<T extends KubeObject>(resource: Resource<T>, object: T): void;
  /** The Deployment's replicas. */
  replicas(name?: string): number | undefined;
  /** What the cluster does with a Deployment that it has: a pod on the node, available; and the agent's report. */
  start(nodeName: string, name?: string): void;
  items(collection: string): Item[];
  /** The only item of a collection, or the one that `match` finds. */
  item(collection: string, match?: (item: Item) => boolean): Item;
  /** One round of steps with what is stored now. */
  context(facts?: Facts, name?: string): GatewayContext;
  /** A whole reconcile of what is stored now. */
  reconcile(name?: string): Promise<Reconciled>;
  /** Stores the gateway and brings it to where every condition is True: on node-1, its tunnels established. */
  run(object?: IPsecGateway): Promise<void>;
}

/** Starts one with the nodes node-1 and node-2 and the Secret "keys"; a gateway is the test's to put. */
export function startWorld(options: Partial<GatewayOptions> = {}): World {
  const api = startLoopbackApiServer();
  const double = startCloudDouble();
  const kube = createKubeClient(api.connection);
  const cloud = double.client({ fetch: double.fetch });
  const names = new Set<string>();
  const at = <T extends KubeObject>(resource: Resource<T>, name?: string) =>
    pathOf(resource as Resource, { ...(resource.namespaced ? { namespace: "tenant" } : {}), name });
  let turn: Promise<unknown> = Promise.resolve();

  const deps: GatewayDeps = {
    kube,
    clouds: { for: () => Promise.resolve(cloud), [Symbol.asyncDispose]: () => Promise.resolve() },
    options: gatewayOptions(options),
    nodes: () => world.nodes,
    gateways: () => [...names].flatMap((name) => world.read(GATEWAYS, name) ?? []),
    apiServer: undefined,
    resolve: () => Promise.resolve([]),
    oneAtATime: (run) => {
      const next = turn.then(run);
      turn = next.catch(() => {});
      return next;
    },
    now: () => world.now,
    log: silentLog,
  };

  const world: World = {
    api,
    double,
    deps,
    now: NOW,
    nodes: [node("node-1"), node("node-2")],
    intercept: () => undefined,
    put(object) {
      names.add(object.metadata.name ?? "");
      return api.put(at(GATEWAYS), object) as IPsecGateway;
    },
    edit(spec, name = "gw") {
      const old = world.gateway(name);
      const metadata = { ...old.metadata, generation: (old.metadata.generation ?? 0) + 1 };
      world.put({ ...old, metadata, spec: { ...old.spec, ...spec } });
    },
    remove(name = "gw") {
      const old = world.gateway(name);
      world.put({ ...old, metadata: { ...old.metadata, deletionTimestamp: world.now.toISOString() } });
    },
    gateway(name = "gw") {
      const found = world.read(GATEWAYS, name);
      if (!found) throw new Error(`Cannot find gateway ${name} on the loopback API server`);
      return found;
    },
    condition(type, name) {
      const found = world.conditionOf(type, name);
      return found && `${found.status}/${found.reason}`;
    },
    conditionOf: (type, name) =>
      world.gateway(name).status?.conditions?.find((one) => one.type === type) as Condition | undefined,
    read: <T extends KubeObject>(resource: Resource<T>, name: string) =>
      api.read(at(resource, name)) as T | undefined,
    write: (resource, object) => void api.put(at(resource), object),
    replicas: (name = "gw") => world.read(DEPLOYMENTS, name)?.spec?.replicas,
    start(nodeName, name = "gw") {
      const deployment: Deployment = world.read(DEPLOYMENTS, name) ?? {};
      world.write(DEPLOYMENTS, { ...deployment, status: { availableReplicas: 1, updatedReplicas: 1 } });
      const pod: Pod = {
        metadata: { name: `${name}-pod` },
        spec: { nodeName, containers: [] },
        status: { phase: "Running", startTime: world.now.toISOString() },
      };
      world.write(PODS, pod);
      const old = world.gateway(name);
      const agent = { podName: `${name}-pod`, lastHeartbeatTime: world.now.toISOString() };
      const tunnels = old.spec.tunnels.map((one) => ({ name: one.name, state: "ESTABLISHED" as const }));
      world.put({ ...old, status: { ...old.status, agent, tunnels } });
    },
    items: (collection) => double.items[collection] ?? [],
    item(collection, match = () => true) {
      const [found, ...more] = world.items(collection).filter(match);
      if (!found || more.length) {
        throw new Error(`Cannot choose one of ${collection}: there are ${found ? more.length + 1 : 0}`);
      }
      return found;
    },
    context(facts = {}, name = "gw") {
      const current = world.gateway(name);
      const { signal } = new AbortController();
      const conditions = (current.status?.conditions ?? []) as readonly Condition[];
      return {
        ...deps,
        gateway: current,
        facts,
        signal,
        saveFacts: () => writeStatus(deps, current, { facts, conditions, signal }),
      };
    },
    reconcile: (name = "gw") =>
      reconcileGateway(deps, world.gateway(name), {
        steps,
        random: () => 0,
        signal: new AbortController().signal,
      }),
    async run(object = gateway()) {
      const { name = "" } = world.put(object).metadata;
      await world.reconcile(name);
      world.start(world.gateway(name).status?.nodeName ?? "", name);
      await world.reconcile(name);
    },
    async [Symbol.asyncDispose]() {
      kube[Symbol.dispose]();
      await cloud[Symbol.asyncDispose]();
      await double[Symbol.asyncDispose]();
      await api[Symbol.asyncDispose]();
    },
  };
  api.intercept = (request) =>
    world.intercept(request) ?? statusOfGateway(api, request) ?? lastFinalizer(api, request);
  api.put("/api/v1/namespaces/tenant/secrets", {
    metadata: { name: "keys" },
    ...{ data: { psk: btoa("k") } },
  });
  double.items.floatingips?.push(floatingIP("pinned", PINNED));
  return world;
}

/** A floating IP that is on `portID`, or on none. */
export function floatingIP(id: string, address: string, fields: Partial<Item> = {}): Item {
  return {
    id,
    floating_ip_address: address,
    floating_network_id: "X",
    port_id: null,
    tags: [],
    description: "",
    revision_number: 1,
    ...fields,
  };
}

/** A Node object of the API server, for tests of what watches nodes. */
export function putNode(world: Pick<World, "api">, object: Node): void {
  world.api.put(pathOf(NODES as Resource, {}), object);
}

/** A Secret of the gateways' namespace. */
export function putSecret(
  world: Pick<World, "write">,
  name: string,
  data: Readonly<Record<string, string>>,
): void {
  const encoded = Object.fromEntries(Object.entries(data).map(([key, value]) => [key, btoa(value)]));
  world.write(SECRETS, { metadata: { name }, data: encoded });
}

/** Server-side apply of the status: each of the two managers owns its fields, and one that it leaves out goes. */
function statusOfGateway(api: LoopbackApiServer, request: RecordedRequest): Response | undefined {
  const path = /^(.*\/ipsecgateways\/[^/]+)\/status$/.exec(request.path)?.[1];
  if (path === undefined || request.method !== "PATCH") return undefined;
  const live = api.read(path) as IPsecGateway | undefined;
  if (!live) return statusAnswer(404, "NotFound");
  const { tunnels, agent, dataPlane, ...controllers } = live.status ?? {};
  const agents = Object.fromEntries(
    Object.entries({ tunnels, agent, dataPlane }).filter(([, value]) => value !== undefined),
  );
  const given = (request.body as IPsecGateway).status;
  const status = request.query.get("fieldManager") === AGENT_MANAGER
    ? { ...controllers, ...given }
    : { ...agents, ...given };
  return Response.json(api.put(path.slice(0, path.lastIndexOf("/")), { ...live, ...{ status } }));
}

/** What is being deleted is gone with its last finalizer. */
function lastFinalizer(
  api: LoopbackApiServer,
  { method, path, body }: RecordedRequest,
): Response | undefined {
  const live = api.read(path);
  const patch = (body ?? {}) as KubeObject;
  if (method !== "PATCH" || !live?.metadata?.deletionTimestamp || patch.metadata?.finalizers?.length !== 0) {
    return undefined;
  }
  const wanted = patch.metadata.resourceVersion;
  if (wanted !== undefined && wanted !== live.metadata.resourceVersion) return statusAnswer(409, "Conflict");
  api.remove(path);
  return Response.json(live);
}
