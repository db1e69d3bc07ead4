// Watches gateways, their objects and the nodes, and reconciles what changes.
import {
  GATEWAY_LABEL,
  GATEWAYS,
  type IPsecGateway,
  MANAGED_BY,
  MANAGED_BY_LABEL,
  nameOf,
} from "../api/ipsec_gateway.ts";
import { type Cache, startCache } from "../kube/cache.ts";
import type { KubeClient } from "../kube/client.ts";
import type { Condition } from "../kube/conditions.ts";
import type { EventRecorder } from "../kube/events.ts";
import { CONFIG_MAPS, DEPLOYMENTS, type Node, NODES, SERVICES } from "../kube/kinds.ts";
import { get } from "../kube/objects.ts";
import { createQueue, type QueueMetrics } from "../kube/queue.ts";
import { keyOf, type KubeObject, type Resource, splitKey } from "../kube/resource.ts";
import { type Clock, systemClock } from "../process/clock.ts";
import type { Log } from "../process/log.ts";
import { cleanup } from "./cleanup.ts";
import type { Clouds } from "./clouds.ts";
import { type GatewayContext, type GatewayDeps, messageOf } from "./context.ts";
import { isReady } from "./nodes.ts";
import type { GatewayOptions } from "./options.ts";
import { remembering } from "./peers.ts";
import { reconcileGateway, writeStatus } from "./reconcile.ts";
import { steps } from "./steps.ts";

export interface GatewayControllerOptions {
  readonly kube: KubeClient;
  readonly clouds: Clouds;
  readonly options: GatewayOptions;
  readonly events: EventRecorder;
  readonly log: Log;
  readonly resolve: GatewayDeps["resolve"];
  /** Address of the API server as pods see it; undefined outside of a cluster. */
  readonly apiServer: string | undefined;
  /** Only these namespaces; undefined for all. */
  readonly watchNamespaces?: readonly string[];
  readonly workers?: number;
  readonly queueMetrics?: QueueMetrics;
  readonly clock?: Clock;
  readonly random?: () => number;
}

export interface GatewayController extends AsyncDisposable {
  /** Gateways as last seen, for metrics. */
  gateways(): readonly IPsecGateway[];
  /** Whether the caches are filled. */
  hasSynced(): boolean;
  /** Reconciles until `signal` aborts, then lets what runs finish. */
  run(signal: AbortSignal): Promise<void>;
}

/** Timers may fire a little early. */
const TIMER_SLACK_MS = 50;
const CLEANUP_RETRY_MS = 15_000;
/** Changes of a gateway's objects are looked at together after this time, in milliseconds. */
const OBJECTS_SETTLE_MS = 1_000;

/** Starts the caches at once; `run()` then does the work, on the leader only. */
export function createGatewayController(setup: GatewayControllerOptions): GatewayController {
  const { kube, log, events, watchNamespaces: namespaces } = setup;
  const clock = setup.clock ?? systemClock;
  const now = () => clock.date();
  const random = setup.random ?? Math.random;
  const queue = createQueue({
    name: "ipsecgateway",
    log,
    clock,
    random,
    ...(setup.queueMetrics ? { metrics: setup.queueMetrics } : {}),
  });
  const cacheOptions = { namespaces, log };
  const gateways = startCache(kube, GATEWAYS, cacheOptions);
  const nodes = startCache(kube, NODES, { log });
  const owned = { ...cacheOptions, labelSelector: `${MANAGED_BY_LABEL}=${MANAGED_BY},${GATEWAY_LABEL}` };
  const objects = [DEPLOYMENTS, CONFIG_MAPS, SERVICES].map((resource) =>
    startCache(kube, resource as Resource, owned)
  );
  const caches: readonly Cache<KubeObject>[] = [
    gateways as Cache<KubeObject>,
    nodes as Cache<KubeObject>,
    ...objects,
  ];

  /** Gateways that want all their steps now, not only a fresh summary; and when the others' turn comes. */
  const wantFull = new Set<string>();
  const dueAt = new Map<string, number>();
  /** When the objects of a gateway that have changed are looked at: an agent's report in between is not that. */
  const settledAt = new Map<string, number>();
  /** What the cleanup of a gateway was last said to wait for, by uid. */
  const waits = new Map<string, string>();

  const want = (key: string) => {
    wantFull.add(key);
    queue.add(key);
  };
  gateways.onChange((type, gateway, old) => {
    const key = keyOf(gateway);
    if (type === "modified" && old && !edited(gateway, old)) queue.add(key);
    else want(key);
  });
  nodes.onChange((type, node, old) => {
    if (type === "modified" && old && !movesGateways(node, old)) return;
    for (const gateway of gateways.list()) {
      if (gateway.status?.nodeName === undefined || gateway.status.nodeName === node.metadata?.name) {
        want(keyOf(gateway));
      }
    }
  });
  for (const cache of objects) {
    cache.onChange((type, object, old) => {
      if (type === "added") return;
      const owner = object.metadata?.ownerReferences?.find((one) => one.kind === GATEWAYS.kind);
      if (
        owner && (type === "deleted" || old?.metadata?.resourceVersion !== object.metadata?.resourceVersion)
      ) {
        // A pod that becomes ready changes its Deployment several times in a row.
        const key = `${object.metadata?.namespace}/${owner.name}`;
        if (!settledAt.has(key)) settledAt.set(key, now().getTime() + OBJECTS_SETTLE_MS);
        queue.addAfter(key, OBJECTS_SETTLE_MS);
      }
    });
  }

  let allocation: Promise<unknown> = Promise.resolve();
  const deps: GatewayDeps = {
    kube,
    clouds: setup.clouds,
    options: setup.options,
    nodes: () => nodes.list(),
    gateways: () => gateways.list(),
    apiServer: setup.apiServer,
    resolve: remembering(setup.resolve, {
      now: () => now().getTime(),
      told: (host, error) =>
        log.warn("A peer's name does not resolve: going on with its last addresses", {
          host,
          error: messageOf(error),
        }),
    }),
    oneAtATime: (run) => {
      const next = allocation.then(run);
      allocation = next.catch(() => {});
      return next;
    },
    now,
    log,
  };

  function nextFull(key: string): number {
    return Math.min(dueAt.get(key) ?? 0, settledAt.get(key) ?? Infinity);
  }

  async function reconcile(key: string, signal: AbortSignal) {
    const { namespace, name } = splitKey(key);
    const due = wantFull.delete(key) || now().getTime() >= nextFull(key) - TIMER_SLACK_MS;
    // The object itself, not the cache's: what was written a moment ago has to be seen.
    const gateway = await get(kube, GATEWAYS, { namespace, name, signal });
    if (!gateway) {
      dueAt.delete(key);
      settledAt.delete(key);
      return;
    }
    // An edit may be here before the watch tells of it, and must not be called observed by a mere summary.
    const full = due || gateway.metadata.generation !== gateway.status?.observedGeneration;
    // What changes from here on wants another round.
    if (full) settledAt.delete(key);
    const own: GatewayDeps = { ...deps, log: log.with({ kind: GATEWAYS.kind, namespace, name }) };
    try {
      if (gateway.metadata.deletionTimestamp) return await clean(own, gateway, signal);
      if (!full) return await refresh(own, gateway, signal);
      const { requeueAfterMs, transitions } = await reconcileGateway(own, gateway, { steps, random, signal });
      dueAt.set(key, now().getTime() + requeueAfterMs);
      for (const { type, condition } of transitions) {
        const bad = condition.status !== "True";
        own.log[bad ? "warn" : "info"](`${type} is ${condition.status}`, {
          reason: condition.reason,
          message: condition.message,
        });
        events.event(gateway, {
          type: bad ? "Warning" : "Normal",
          reason: condition.reason,
          action: type,
          note: condition.message || `${type} is ${condition.status}`,
        });
      }
      return { requeueAfterMs };
    } catch (error) {
      wantFull.add(key);
      throw error;
    }
  }

  async function refresh(own: GatewayDeps, gateway: IPsecGateway, signal: AbortSignal) {
    const conditions = (gateway.status?.conditions ?? []) as readonly Condition[];
    await writeStatus(own, gateway, { facts: {}, conditions, signal });
    return { requeueAfterMs: Math.max(0, nextFull(keyOf(gateway)) - now().getTime()) };
  }

  async function clean(own: GatewayDeps, gateway: IPsecGateway, signal: AbortSignal) {
    const context: GatewayContext = {
      ...own,
      gateway,
      facts: {},
      signal,
      saveFacts: () => Promise.resolve(),
    };
    try {
      const cleaned = await cleanup(context);
      if (cleaned.kind === "gone") {
        own.log.info("Cleaned up");
        waits.delete(gateway.metadata.uid ?? "");
        return;
      }
      if (waits.get(gateway.metadata.uid ?? "") !== cleaned.for) {
        own.log.info(`Cleanup waits for ${cleaned.for}`);
      }
      waits.set(gateway.metadata.uid ?? "", cleaned.for);
      return { requeueAfterMs: cleaned.pollMs };
    } catch (error) {
      signal.throwIfAborted();
      own.log.warn("Cleanup failed", { error: error instanceof Error ? error : String(error) });
      events.event(gateway, {
        type: "Warning",
        reason: "CleanupFailed",
        action: "Cleanup",
        note: `Cannot clean up IPsecGateway ${nameOf(gateway)}: ${messageOf(error)}`,
      });
      return { requeueAfterMs: CLEANUP_RETRY_MS };
    }
  }

  return {
    gateways: () => gateways.list(),
    hasSynced: () => caches.every((cache) => cache.hasSynced()),
    async run(signal) {
      try {
        await Promise.all(caches.map((cache) => cache.synced(signal)));
      } catch (error) {
        if (signal.aborted) return;
        throw error;
      }
      for (const gateway of gateways.list()) want(keyOf(gateway));
      await queue.run({ workers: setup.workers ?? 16, signal, reconcile });
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(caches.map((cache) => cache[Symbol.asyncDispose]()));
    },
  };
}

/** Whether a person or another controller has changed the object; status writes are not that. */
function edited(gateway: IPsecGateway, old: IPsecGateway): boolean {
  const edit = ({ metadata }: IPsecGateway) =>
    JSON.stringify([
      metadata.generation,
      metadata.labels,
      metadata.annotations,
      metadata.deletionTimestamp,
      metadata.finalizers,
    ]);
  return edit(gateway) !== edit(old);
}

/** Whether a node's change can move a gateway: readiness, schedulability, labels, its server. */
function movesGateways(node: Node, old: Node): boolean {
  const facts = (one: Node) => JSON.stringify([isReady(one), one.metadata?.labels, one.spec]);
  return facts(node) !== facts(old);
}
