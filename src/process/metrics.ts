/**
 * The controller's metrics, under controller-runtime's and client-go's names where there are any, so that dashboards
 * and alerts written for other controllers work. The status-agent does not load this: it writes its text itself.
 */
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { PROCESS_METRICS, processStats } from "./process_stats.ts";

/** Hooks of a work queue; the shape that `src/kube/queue.ts` asks for. */
export interface QueueHooks {
  added(): void;
  retried(): void;
  depth(keys: number): void;
  waited(seconds: number): void;
  worked(seconds: number, result: "success" | "error" | "requeue" | "requeue_after"): void;
  running(ages: () => number[]): void;
}

export interface Metrics {
  /** For metrics of one's own: `new Gauge({registers: [registry], ...})`. */
  readonly registry: Registry;
  /** The text of `/metrics`. */
  text(): Promise<string>;
  /** Hooks for the queue of a controller; once for each name. */
  queue(name: string): QueueHooks;
  /** `rest_client_requests_total{code,method}` and its duration; code 0 is written as "<error>". */
  kubeAnswer(answer: { method: string; code: number; ms: number }): void;
  /** `ipsec_operator_openstack_requests_total{service,method,code}` and its duration. */
  openstackAnswer(answer: { service: string; method: string; code: number; ms: number }): void;
  /** `leader_election_master_status{name}`. */
  leader(name: string, leads: boolean): void;
}

/** client-go's buckets for queues: 10 ns to 1000 s by tens, of which the lowest three are of no use here. */
const QUEUE_BUCKETS = [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000];
const RECONCILE_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const CALL_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

function codeLabel(code: number): string {
  return code === 0 ? "<error>" : String(code);
}

/** A registry with the metrics that every controller has. */
export function createMetrics({ version }: { version: string }): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const process = new Map<string, Counter | Gauge>();
  const setProcess = (name: string, value: number) => {
    const options = { name, help: PROCESS_METRICS[name] ?? name, registers };
    // Prometheus' own type for it, although it is set and not counted here.
    const metric = process.get(name) ?? (name.endsWith("_total") ? new Counter(options) : new Gauge(options));
    process.set(name, metric);
    metric.reset();
    metric.inc(value);
  };
  new Gauge({
    name: "ipsec_operator_build_info",
    help: "Always 1; the version is its label",
    labelNames: ["version", "deno"],
    registers,
  }).set({ version, deno: Deno.version.deno }, 1);

  const depth = new Gauge({
    name: "workqueue_depth",
    help: "Keys that wait in the work queue",
    labelNames: ["name", "controller"],
    registers,
  });
  const adds = new Counter({
    name: "workqueue_adds_total",
    help: "Keys added to the work queue",
    labelNames: ["name", "controller"],
    registers,
  });
  const retries = new Counter({
    name: "workqueue_retries_total",
    help: "Keys added again with backoff",
    labelNames: ["name", "controller"],
    registers,
  });
  const waits = new Histogram({
    name: "workqueue_queue_duration_seconds",
    help: "How long a key waits before a worker takes it",
    labelNames: ["name", "controller"],
    buckets: QUEUE_BUCKETS,
    registers,
  });
  const works = new Histogram({
    name: "workqueue_work_duration_seconds",
    help: "How long a worker has a key",
    labelNames: ["name", "controller"],
    buckets: QUEUE_BUCKETS,
    registers,
  });
  const running = new Map<string, () => number[]>();
  new Gauge({
    name: "workqueue_unfinished_work_seconds",
    help: "Seconds of work in progress, over all workers",
    labelNames: ["name", "controller"],
    registers,
    collect() {
      for (const [name, ages] of running) this.set(both(name), ages().reduce((sum, age) => sum + age, 0));
    },
  });
  new Gauge({
    name: "workqueue_longest_running_processor_seconds",
    help: "Seconds that the longest running worker has had its key",
    labelNames: ["name", "controller"],
    registers,
    collect() {
      for (const [name, ages] of running) this.set(both(name), Math.max(0, ...ages()));
    },
  });
  new Gauge({
    name: "controller_runtime_active_workers",
    help: "Workers that have a key",
    labelNames: ["controller"],
    registers,
    collect() {
      for (const [controller, ages] of running) this.set({ controller }, ages().length);
    },
  });
  const reconciles = new Counter({
    name: "controller_runtime_reconcile_total",
    help: "Reconciles by how they ended",
    labelNames: ["controller", "result"],
    registers,
  });
  const reconcileErrors = new Counter({
    name: "controller_runtime_reconcile_errors_total",
    help: "Reconciles that ended with an unexpected error",
    labelNames: ["controller"],
    registers,
  });
  const reconcileTime = new Histogram({
    name: "controller_runtime_reconcile_time_seconds",
    help: "Duration of a reconcile",
    labelNames: ["controller"],
    buckets: RECONCILE_BUCKETS,
    registers,
  });
  const leaders = new Gauge({
    name: "leader_election_master_status",
    help: "Whether this process holds the lease",
    labelNames: ["name"],
    registers,
  });
  const kubeCalls = new Counter({
    name: "rest_client_requests_total",
    help: "Answers of the API server by code and method",
    labelNames: ["code", "method"],
    registers,
  });
  const kubeTime = new Histogram({
    name: "rest_client_request_duration_seconds",
    help: "Time until the API server's answer begins",
    labelNames: ["verb"],
    buckets: CALL_BUCKETS,
    registers,
  });
  const openstackCalls = new Counter({
    name: "ipsec_operator_openstack_requests_total",
    help: "Answers of OpenStack by service, method and code",
    labelNames: ["service", "method", "code"],
    registers,
  });
  const openstackTime = new Histogram({
    name: "ipsec_operator_openstack_request_duration_seconds",
    help: "Duration of calls to OpenStack",
    labelNames: ["service", "method"],
    buckets: CALL_BUCKETS,
    registers,
  });

  return {
    registry,
    async text() {
      for (const [name, value] of Object.entries(await processStats())) setProcess(name, value);
      return await registry.metrics();
    },
    queue(name) {
      const labels = both(name);
      const controller = { controller: name };
      depth.set(labels, 0);
      adds.inc(labels, 0);
      retries.inc(labels, 0);
      reconcileErrors.inc(controller, 0);
      for (const result of ["success", "error", "requeue", "requeue_after"]) {
        reconciles.inc({ ...controller, result }, 0);
      }
      return {
        added: () => adds.inc(labels),
        retried: () => retries.inc(labels),
        depth: (keys) => depth.set(labels, keys),
        waited: (seconds) => waits.observe(labels, seconds),
        worked(seconds, result) {
          works.observe(labels, seconds);
          reconcileTime.observe(controller, seconds);
          reconciles.inc({ ...controller, result });
          if (result === "error") reconcileErrors.inc(controller);
        },
        running: (ages) => running.set(name, ages),
      };
    },
    kubeAnswer({ method, code, ms }) {
      kubeCalls.inc({ code: codeLabel(code), method });
      kubeTime.observe({ verb: method }, ms / 1000);
    },
    openstackAnswer({ service, method, code, ms }) {
      openstackCalls.inc({ service, method, code: codeLabel(code) });
      openstackTime.observe({ service, method }, ms / 1000);
    },
    leader: (name, leads) => leaders.set({ name }, leads ? 1 : 0),
  };
}

/** controller-runtime labels its queues with both. */
function both(name: string): { name: string; controller: string } {
  return { name, controller: name };
}
