/**
 * A work queue with client-go's rules (k8s.io/client-go/util/workqueue): a key waits once, is never worked on twice at
 * the same time, and one that is added while it is worked on is worked on again afterwards.
 */
import { type Clock, jitter, systemClock } from "../process/clock.ts";
import { type Log, silentLog } from "../process/log.ts";

/**
 * What became of a key: nothing more to do; look again after a fixed time (its failures are forgotten); or try again
 * with backoff, for a failure that was expected and told already. An unexpected failure is thrown.
 */
export type Reconciled = void | { requeueAfterMs: number } | { retry: true };

export type ReconcileResult = "success" | "error" | "requeue" | "requeue_after";

/** Where the queue's numbers go. */
export interface QueueMetrics {
  added(): void;
  retried(): void;
  /** Keys that wait. */
  depth(keys: number): void;
  /** How long a key waited before a worker took it. */
  waited(seconds: number): void;
  /** How long a worker had it, and how that ended. */
  worked(seconds: number, result: ReconcileResult): void;
  /** Called once; `ages` gives the seconds that each running piece of work has taken so far. */
  running(ages: () => number[]): void;
}

export interface QueueOptions {
  name: string;
  /** First delay after a failure, 250 ms; doubled with each one in a row. */
  baseDelayMs?: number;
  /** 5 min. */
  maxDelayMs?: number;
  clock?: Clock;
  random?: () => number;
  metrics?: QueueMetrics | undefined;
  log?: Log;
}

export interface RunOptions {
  workers?: number;
  /** Aborting it drains the queue. */
  signal: AbortSignal;
  /** How long running work may go on after the abort before its own signal aborts, 8 s. */
  drainMs?: number;
  /** How long that may take to end then, 1 s. */
  giveUpMs?: number;
  reconcile: (key: string, signal: AbortSignal) => Promise<Reconciled>;
}

export interface Queue {
  /** Wants `key` worked on, as soon as a worker is free. */
  add(key: string): void;
  /** Adds `key` after `ms`. Of several times for one key the earliest stands. */
  addAfter(key: string, ms: number): void;
  /** Adds `key` after a delay that doubles with each call since the last `forget`. */
  addRateLimited(key: string): void;
  /** Forgets the failures of `key`. */
  forget(key: string): void;
  /** Failures of `key` since the last `forget`. */
  failures(key: string): number;
  /** Keys that wait for a worker now. */
  waiting(): number;
  /**
   * Works until `signal` aborts; then takes nothing more, lets running work finish, and resolves with the keys whose
   * work was given up. Never rejects. To be called once.
   */
  run(options: RunOptions): Promise<string[]>;
}

/** An empty queue; it may be filled before it runs. */
export function createQueue(
  {
    name,
    baseDelayMs = 250,
    maxDelayMs = 300_000,
    clock = systemClock,
    random = Math.random,
    metrics,
    log = silentLog,
  }: QueueOptions,
): Queue {
  // In client-go's words: `dirty` holds what has to be worked on, `processing` what is, `order` what waits.
  const dirty = new Map<string, number>();
  const processing = new Map<string, number>();
  const order = new Set<string>();
  const delayed = new Map<string, { at: number; cancel: () => void }>();
  const failures = new Map<string, number>();
  const idle: ((key: string | undefined) => void)[] = [];
  let stopped = false;
  metrics?.running(() => [...processing.values()].map((since) => (clock.now() - since) / 1000));

  function enqueue(key: string): void {
    order.add(key);
    metrics?.depth(order.size);
    const worker = idle.shift();
    if (worker) worker(take());
  }

  function take(): string | undefined {
    for (const key of order) {
      order.delete(key);
      const now = clock.now();
      metrics?.depth(order.size);
      metrics?.waited((now - (dirty.get(key) ?? now)) / 1000);
      dirty.delete(key);
      processing.set(key, now);
      return key;
    }
    return undefined;
  }

  function add(key: string): void {
    if (stopped || dirty.has(key)) return;
    dirty.set(key, clock.now());
    metrics?.added();
    if (!processing.has(key)) enqueue(key);
  }

  function addAfter(key: string, ms: number): void {
    if (stopped) return;
    if (ms <= 0) return add(key);
    const at = clock.now() + ms;
    const known = delayed.get(key);
    if (known && known.at <= at) return;
    known?.cancel();
    const cancel = clock.setTimer(ms, () => {
      delayed.delete(key);
      add(key);
    });
    delayed.set(key, { at, cancel });
  }

  function addRateLimited(key: string): void {
    const count = failures.get(key) ?? 0;
    failures.set(key, count + 1);
    metrics?.retried();
    addAfter(key, Math.min(maxDelayMs, jitter(baseDelayMs * 2 ** Math.min(count, 30), { random })));
  }

  function done(key: string): void {
    processing.delete(key);
    if (dirty.has(key) && !stopped) enqueue(key);
  }

  async function work(
    key: string,
    { reconcile, signal }: Pick<RunOptions, "reconcile" | "signal">,
  ): Promise<void> {
    const started = clock.now();
    let result: ReconcileResult = "success";
    try {
      const outcome = await reconcile(key, signal);
      if (outcome && "retry" in outcome) {
        result = "requeue";
        addRateLimited(key);
      } else {
        failures.delete(key);
        if (outcome) {
          result = "requeue_after";
          addAfter(key, outcome.requeueAfterMs);
        }
      }
    } catch (error) {
      result = "error";
      if (!signal.aborted) log.error("Reconcile failed", { queue: name, key, error: asError(error) });
      addRateLimited(key);
    } finally {
      metrics?.worked((clock.now() - started) / 1000, result);
      done(key);
    }
  }

  async function run(
    { workers = 1, signal, drainMs = 8_000, giveUpMs = 1_000, reconcile }: RunOptions,
  ): Promise<string[]> {
    const given = new AbortController();
    const next = () =>
      new Promise<string | undefined>((resolve) => {
        if (stopped) return resolve(undefined);
        const key = take();
        if (key === undefined) idle.push(resolve);
        else resolve(key);
      });
    const loop = async () => {
      for (let key = await next(); key !== undefined; key = await next()) {
        await work(key, { reconcile, signal: given.signal });
      }
    };
    const stop = () => {
      stopped = true;
      for (const { cancel } of delayed.values()) cancel();
      delayed.clear();
      for (const worker of idle.splice(0)) worker(undefined);
    };
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });

    const all = Promise.all(Array.from({ length: workers }, loop));
    let cancel = () => {};
    const limit = new Promise<void>((resolve) => {
      const armed = () => {
        cancel = clock.setTimer(drainMs, () => {
          given.abort(new Error("The queue is shutting down"));
          cancel = clock.setTimer(giveUpMs, resolve);
        });
      };
      if (signal.aborted) armed();
      else signal.addEventListener("abort", armed, { once: true });
    });
    await Promise.race([all, limit]);
    cancel();
    return [...processing.keys()].sort();
  }

  return {
    add,
    addAfter,
    addRateLimited,
    forget: (key) => failures.delete(key),
    failures: (key) => failures.get(key) ?? 0,
    waiting: () => order.size,
    run,
  };
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
