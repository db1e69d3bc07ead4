/**
 * A local copy of a collection that follows the API server by list and watch.
 *
 * client-node's own watches can't be used (see kubeconfig.ts). What such a thing must survive, and how it does:
 * a version that is too old (410): list again and tell the differences; an answer that goes silent without an end:
 * bookmarks come about each minute, so there is a deadline for silence, then abort and list again; a server that
 * ends watches: a random life of 5 to 10 minutes is asked for, so that reconnects spread; anything else: backoff.
 */
import { type Clock, jitter, sleep, systemClock } from "../process/clock.ts";
import { type Log, silentLog } from "../process/log.ts";
import type { KubeClient } from "./client.ts";
import { linkAbort } from "./deadline.ts";
import { errorFromAnswer, isExpired } from "./errors.ts";
import { list } from "./objects.ts";
import { apiVersion, type KubeObject, pathOf, type Resource } from "./resource.ts";

export type ChangeType = "added" | "modified" | "deleted";

/** `old` is what was there before: for "modified" the previous state, for "deleted" nothing. */
export type ChangeHandler<T> = (type: ChangeType, object: T, old: T | undefined) => void;

export interface CacheOptions {
  /** Only these namespaces, one list and watch each; undefined for all at once. */
  namespaces?: readonly string[] | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  log?: Log;
  /** Ends the cache, as disposing it does. */
  signal?: AbortSignal | undefined;
  clock?: Clock;
  random?: () => number;
  /** Shortest and longest life asked for each watch: 300 and 600. */
  timeoutSeconds?: readonly [number, number];
  /** Silence allowed beyond the life asked for, 30 s. */
  graceMs?: number;
  /** Silence allowed once the server has shown that it sends bookmarks, 3 min. */
  bookmarkSilenceMs?: number;
  /** First pause after a failure, 800 ms, doubled up to `maxBackoffMs`, 30 s. */
  backoffMs?: number;
  maxBackoffMs?: number;
  pageSize?: number;
}

/** What happened so far, for metrics and tests. */
export interface CacheStats {
  objects: number;
  lists: number;
  watches: number;
  /** Failed lists and watches, 410 and silence included. */
  errors: number;
  stalls: number;
  handlerErrors: number;
}

export interface Cache<T extends KubeObject> extends AsyncDisposable {
  /** Whether the first list of each namespace is in. */
  hasSynced(): boolean;
  /** Resolves when {@linkcode Cache.hasSynced}; rejects with the signal's reason, or when the cache was ended. */
  synced(signal?: AbortSignal): Promise<void>;
  /** An object as last seen; not to be changed by its reader. */
  get(namespace: string | undefined, name: string): T | undefined;
  /** All objects, or those of a namespace, sorted by namespace and name. */
  list(namespace?: string): T[];
  /**
   * Calls `handler` for each change from now on, and at once with "added" for each object that is there. A handler
   * that throws is logged and harms nobody. Returns how to stop it.
   */
  onChange(handler: ChangeHandler<T>): () => void;
  stats(): CacheStats;
}

interface WatchEvent<T> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  object: T & { code?: number; kind?: string };
}

/** Starts to follow `resource`; nothing is thrown, also when the API server is away: it goes on trying. */
export function startCache<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  {
    namespaces,
    labelSelector,
    fieldSelector,
    log = silentLog,
    signal,
    clock = systemClock,
    random = Math.random,
    timeoutSeconds: [minSeconds, maxSeconds] = [300, 600],
    graceMs = 30_000,
    bookmarkSilenceMs = 180_000,
    backoffMs = 800,
    maxBackoffMs = 30_000,
    pageSize,
  }: CacheOptions = {},
): Cache<T> {
  const scopes: (string | undefined)[] = namespaces ? [...new Set(namespaces)].sort() : [undefined];
  const store = new Map<string, T>();
  const handlers = new Set<ChangeHandler<T>>();
  const unsynced = new Set(scopes);
  const stats = { lists: 0, watches: 0, errors: 0, stalls: 0, handlerErrors: 0 };
  const synced = Promise.withResolvers<void>();
  // Nobody may be waiting for it when the cache ends early.
  synced.promise.catch(() => {});
  if (unsynced.size === 0) synced.resolve();
  const life = linkAbort(signal);
  const tell = log.with({ kind: resource.kind });

  function emit(handler: ChangeHandler<T>, change: Parameters<ChangeHandler<T>>): void {
    try {
      handler(...change);
    } catch (error) {
      stats.handlerErrors++;
      tell.error("A change handler failed", { error: error instanceof Error ? error : String(error) });
    }
  }

  function put(object: T): void {
    const key = cacheKey(object.metadata?.namespace, object.metadata?.name);
    const old = store.get(key);
    if (old && old.metadata?.uid === object.metadata?.uid) {
      if (old.metadata?.resourceVersion === object.metadata?.resourceVersion) return;
      store.set(key, object);
      for (const handler of handlers) emit(handler, ["modified", object, old]);
      return;
    }
    if (old) drop(old);
    store.set(key, object);
    for (const handler of handlers) emit(handler, ["added", object, undefined]);
  }

  function drop(object: T): void {
    if (!store.delete(cacheKey(object.metadata?.namespace, object.metadata?.name))) return;
    for (const handler of handlers) emit(handler, ["deleted", object, undefined]);
  }

  /** Lists a scope and tells what differs; the version to watch from. */
  async function relist(namespace: string | undefined): Promise<string> {
    const found = await list(client, resource, {
      namespace,
      labelSelector,
      fieldSelector,
      pageSize,
      signal: life.signal,
      timeoutMs: 60_000,
    });
    stats.lists++;
    const there = new Set(found.items.map((item) => cacheKey(item.metadata?.namespace, item.metadata?.name)));
    const gone = [...store].filter(([key, object]) =>
      !there.has(key) && (namespace === undefined || object.metadata?.namespace === namespace)
    );
    for (const [, object] of gone) drop(object);
    for (const item of found.items) put(slim(item));
    if (unsynced.delete(namespace) && unsynced.size === 0) synced.resolve();
    return found.resourceVersion;
  }

  /** Watches a scope until the server ends it; `advance` is told each version that came by. */
  async function watch(
    namespace: string | undefined,
    { version, advance }: { version: string; advance: (version: string) => void },
  ): Promise<void> {
    const timeoutSeconds = Math.round(minSeconds + (maxSeconds - minSeconds) * random());
    using link = linkAbort(life.signal);
    let silenceMs = timeoutSeconds * 1000 + graceMs;
    let cancel = () => {};
    const listen = () => {
      cancel();
      cancel = clock.setTimer(silenceMs, () => link.abort(new StallError(silenceMs)));
    };
    listen();
    try {
      await using lines = await client.stream({
        method: "GET",
        path: pathOf(resource, { namespace }),
        query: {
          watch: true,
          allowWatchBookmarks: true,
          resourceVersion: version,
          timeoutSeconds,
          labelSelector,
          fieldSelector,
        },
        signal: link.signal,
      });
      stats.watches++;
      for await (const line of lines) {
        listen();
        const event = parse<T>(line);
        if (event.type === "ERROR") {
          throw errorFromAnswer(`watch ${resource.plural}`, {
            code: event.object.code ?? 500,
            body: JSON.stringify(event.object),
          });
        }
        if (event.type === "BOOKMARK") {
          silenceMs = Math.min(silenceMs, bookmarkSilenceMs);
          listen();
        } else if (event.type === "DELETED") drop(slim(event.object));
        else put(slim(event.object));
        const seen = event.object.metadata?.resourceVersion;
        if (seen) advance(seen);
      }
    } catch (error) {
      throw link.signal.aborted ? link.signal.reason : error;
    } finally {
      cancel();
    }
  }

  /** Follows one scope for good. */
  async function follow(namespace: string | undefined): Promise<void> {
    let version: string | undefined;
    let failures = 0;
    while (!life.signal.aborted) {
      const started = clock.now();
      let progress = false;
      try {
        version ??= await relist(namespace);
        await watch(namespace, {
          version,
          advance: (seen) => {
            version = seen;
            progress = true;
          },
        });
        // A server that ends each watch at once must not be asked in a tight loop.
        failures = progress || clock.now() - started > 1000 ? 0 : failures + 1;
      } catch (error) {
        if (life.signal.aborted) return;
        stats.errors++;
        const stalled = error instanceof StallError;
        if (stalled) stats.stalls++;
        if (stalled || isExpired(error)) version = undefined;
        failures = progress ? 1 : failures + 1;
        tell[isExpired(error) ? "info" : "warn"]("Watch interrupted", {
          namespace,
          failures,
          error: error instanceof Error ? error : String(error),
        });
        // A list is the answer to these two, and can be had at once.
        if (failures === 1 && version === undefined) continue;
      }
      if (failures === 0) continue;
      const pauseMs = Math.min(maxBackoffMs, backoffMs * 2 ** Math.min(failures - 1, 16));
      await sleep(jitter(pauseMs, { spread: 0.5, random }), { signal: life.signal, clock });
    }
  }

  const loops = Promise.all(scopes.map(follow)).finally(() => {
    life[Symbol.dispose]();
    synced.reject(new Error(`The cache of ${resource.plural} was ended`));
  });

  return {
    hasSynced: () => unsynced.size === 0,
    async synced(signal) {
      if (!signal) return await synced.promise;
      const aborted = Promise.withResolvers<never>();
      const onAbort = () => aborted.reject(signal.reason);
      if (signal.aborted) onAbort();
      signal.addEventListener("abort", onAbort, { once: true });
      try {
        await Promise.race([synced.promise, aborted.promise]);
      } finally {
        signal.removeEventListener("abort", onAbort);
      }
    },
    get: (namespace, name) => store.get(cacheKey(namespace, name)),
    list: (namespace) =>
      [...store.entries()].filter(([, each]) =>
        namespace === undefined || each.metadata?.namespace === namespace
      )
        .sort(([a], [b]) => a < b ? -1 : 1).map(([, object]) => object),
    onChange(handler) {
      handlers.add(handler);
      for (const object of [...store.values()]) emit(handler, ["added", object, undefined]);
      return () => handlers.delete(handler);
    },
    stats: () => ({ objects: store.size, ...stats }),
    async [Symbol.asyncDispose]() {
      life.abort(new Error("The cache was ended"));
      await loops;
    },
  };

  function slim(object: T): T {
    object.apiVersion ??= apiVersion(resource);
    object.kind ??= resource.kind;
    // Half of an object's size, and nobody here reads it.
    delete object.metadata?.managedFields;
    return object;
  }
}

/** Thrown into a watch that has been silent for too long. */
class StallError extends Error {
  override readonly name = "StallError";
  constructor(ms: number) {
    super(`Nothing was heard for ${Math.round(ms / 1000)} s`);
  }
}

function cacheKey(namespace: string | undefined, name: string | undefined): string {
  return `${namespace ?? ""}/${name ?? ""}`;
}

function parse<T>(line: string): WatchEvent<T> {
  try {
    return JSON.parse(line) as WatchEvent<T>;
  } catch (cause) {
    throw new SyntaxError(`Cannot read a watch event: a line of ${line.length} characters is no JSON`, {
      cause,
    });
  }
}
