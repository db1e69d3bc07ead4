/**
 * A small API server on loopback, for tests: it stores any resource, keeps versions, streams watches, and can be told
 * to misbehave. It knows no schema, no defaults and no permissions; what depends on those is tested against a real one.
 */
import type { KubeConnection } from "./connection.ts";
import type { KubeObject } from "./resource.ts";

export interface RecordedRequest {
  method: string;
  /** Path without its query. */
  path: string;
  query: URLSearchParams;
  headers: Headers;
  /** Parsed JSON, if there was any. */
  body: unknown;
  /** The client's port: which connection it came by. */
  port: number;
}

/** Answers instead of the server, or lets it go on with undefined. */
export type Intercept = (request: RecordedRequest) => Response | undefined | Promise<Response | undefined>;

export interface LoopbackApiServer extends AsyncDisposable {
  readonly connection: KubeConnection;
  readonly requests: RecordedRequest[];
  /** What each request is asked first; to be replaced by tests. */
  intercept: Intercept;
  /** Stores an object of a collection (`/api/v1/namespaces/a/configmaps`) as if somebody had written it. */
  put(collection: string, object: KubeObject): KubeObject;
  /** An object by its path. */
  read(path: string): KubeObject | undefined;
  remove(path: string): void;
  /** Sends each open watch a bookmark of the present version. */
  bookmark(): void;
  /** Forgets the history: watches from an earlier version get 410. `told` sends it into the open watches too. */
  compact(options?: { told?: boolean }): void;
  /** Breaks all open watches in the middle, without an end. */
  cutWatches(): void;
  /** Ends all open watches as a server does when their time is over. */
  endWatches(): void;
  /** From now on the open watches say nothing more, and stay open. */
  muteWatches(): void;
  watches(): number;
  /** Connections that are open, by the kernel's table (both ends count, as they are in one process). */
  sockets(): Promise<number>;
}

interface Watcher {
  prefix: string;
  controller: ReadableStreamDefaultController<Uint8Array>;
  muted: boolean;
}

interface Change {
  version: number;
  type: string;
  path: string;
  object: KubeObject;
}

const encoder = new TextEncoder();

/** A `Status` as the API server answers with. */
export function statusAnswer(code: number, reason: string, headers: Record<string, string> = {}): Response {
  const body = {
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    code,
    reason,
    message: `told to be ${reason}`,
  };
  return Response.json(body, { status: code, headers });
}

/** Starts one at a free port of 127.0.0.1; its connection has the token "loopback". */
export function startLoopbackApiServer(): LoopbackApiServer {
  const objects = new Map<string, KubeObject>();
  const watchers = new Set<Watcher>();
  const requests: RecordedRequest[] = [];
  let history: Change[] = [];
  let version = 1;
  let compacted = 0;

  function line(type: string, object: unknown): Uint8Array<ArrayBuffer> {
    return encoder.encode(JSON.stringify({ type, object }) + "\n");
  }

  function matches(prefix: string, path: string): boolean {
    const collection = path.slice(0, path.lastIndexOf("/"));
    if (prefix === collection) return true;
    // A namespaced collection over all namespaces: /api/v1/pods has /api/v1/namespaces/a/pods/x.
    const plural = prefix.slice(prefix.lastIndexOf("/"));
    return collection.startsWith(`${prefix.slice(0, -plural.length)}/namespaces/`) &&
      collection.endsWith(plural);
  }

  function store(path: string, object: KubeObject, type?: string): KubeObject {
    const old = objects.get(path);
    const namespace = /\/namespaces\/([^/]+)\//.exec(path)?.[1];
    const stored: KubeObject = {
      ...object,
      metadata: {
        ...object.metadata,
        ...namespace ? { namespace } : {},
        uid: old?.metadata?.uid ?? object.metadata?.uid ?? crypto.randomUUID(),
        resourceVersion: String(++version),
        managedFields: [{ manager: "loopback" }],
      },
    };
    const change = { version, type: type ?? (old ? "MODIFIED" : "ADDED"), path, object: stored };
    if (change.type === "DELETED") objects.delete(path);
    else objects.set(path, stored);
    history.push(change);
    for (const watcher of watchers) {
      if (!watcher.muted && matches(watcher.prefix, path)) {
        watcher.controller.enqueue(line(change.type, stored));
      }
    }
    return stored;
  }

  function watch(path: string, from: number): Response {
    if (from < compacted) {
      const status = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" };
      return new Response(line("ERROR", status));
    }
    let watcher: Watcher | undefined;
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        watcher = { prefix: path, controller, muted: false };
        watchers.add(watcher);
        for (const change of history) {
          if (change.version > from && matches(path, change.path)) {
            controller.enqueue(line(change.type, change.object));
          }
        }
      },
      cancel() {
        if (watcher) watchers.delete(watcher);
      },
    });
    return new Response(body, { headers: { "content-type": "application/json" } });
  }

  function list(path: string, query: URLSearchParams): Response {
    const all = [...objects].filter(([each]) => matches(path, each)).sort(([a], [b]) => a < b ? -1 : 1);
    const from = Number(query.get("continue") ?? 0);
    const limit = Number(query.get("limit") ?? 0) || all.length;
    const next = from + limit < all.length ? String(from + limit) : undefined;
    return Response.json({
      kind: "List",
      metadata: { resourceVersion: String(version), continue: next },
      items: all.slice(from, from + limit).map(([, object]) => object),
    });
  }

  function write({ method, path, headers, body }: RecordedRequest): Response {
    const given = body as KubeObject;
    const old = objects.get(path);
    if (method === "POST") {
      const at = `${path}/${given.metadata?.name}`;
      return objects.has(at)
        ? statusAnswer(409, "AlreadyExists")
        : Response.json(store(at, given), { status: 201 });
    }
    if (method === "PATCH" && headers.get("content-type") === "application/apply-patch+yaml") {
      if (given.metadata?.uid && given.metadata.uid !== old?.metadata?.uid) {
        return statusAnswer(409, "Conflict");
      }
      return Response.json(store(path, merge(old ?? {}, given) as KubeObject), { status: old ? 200 : 201 });
    }
    if (!old) return statusAnswer(404, "NotFound");
    const wanted = given?.metadata?.resourceVersion;
    if (wanted && wanted !== old.metadata?.resourceVersion) return statusAnswer(409, "Conflict");
    if (method === "PUT") return Response.json(store(path, given));
    if (method === "PATCH") return Response.json(store(path, merge(old, given) as KubeObject));
    const uid = (body as { preconditions?: { uid?: string } } | undefined)?.preconditions?.uid;
    if (uid && uid !== old.metadata?.uid) return statusAnswer(409, "Conflict");
    return Response.json(store(path, old, "DELETED"));
  }

  async function handle(request: Request, port: number): Promise<Response> {
    const url = new URL(request.url);
    const text = await request.text();
    const recorded: RecordedRequest = {
      method: request.method,
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body: text ? JSON.parse(text) : undefined,
      port,
    };
    requests.push(recorded);
    const instead = await server.intercept(recorded);
    if (instead) return instead;
    if (request.method !== "GET") return write(recorded);
    if (url.searchParams.get("watch")) {
      return watch(url.pathname, Number(url.searchParams.get("resourceVersion")));
    }
    const object = objects.get(url.pathname);
    if (object) return Response.json(object);
    // A collection's path ends with a plural, an object's with a name; kinds in tests have lower-case plurals in -s.
    return /s$/.test(url.pathname) ? list(url.pathname, url.searchParams) : statusAnswer(404, "NotFound");
  }

  const http = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request, { remoteAddr }) => handle(request, remoteAddr.port),
  );
  function each(act: (watcher: Watcher) => void): void {
    for (const watcher of [...watchers]) act(watcher);
  }
  function leave(watcher: Watcher, end: (controller: Watcher["controller"]) => void): void {
    watchers.delete(watcher);
    end(watcher.controller);
  }
  const server: LoopbackApiServer = {
    connection: {
      server: `http://127.0.0.1:${http.addr.port}`,
      namespace: "default",
      credentials: () => Promise.resolve({ headers: { authorization: "Bearer loopback" }, tls: {} }),
    },
    requests,
    intercept: () => undefined,
    put: (collection, object) => store(`${collection}/${object.metadata?.name}`, object),
    read: (path) => objects.get(path),
    remove(path) {
      const old = objects.get(path);
      if (old) store(path, old, "DELETED");
    },
    bookmark() {
      const object = { metadata: { resourceVersion: String(version) } };
      each((watcher) => !watcher.muted && watcher.controller.enqueue(line("BOOKMARK", object)));
    },
    compact({ told = false } = {}) {
      history = [];
      compacted = ++version;
      const status = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" };
      if (told) {
        each((watcher) =>
          leave(watcher, (controller) => {
            controller.enqueue(line("ERROR", status));
            controller.close();
          })
        );
      }
    },
    cutWatches() {
      // Deno prints the stack of what a body fails with; one line of it is enough.
      const cut = Object.assign(new Error("cut"), { stack: "(a watch was cut, as the test wants)" });
      each((watcher) => leave(watcher, (controller) => controller.error(cut)));
    },
    endWatches: () => each((watcher) => leave(watcher, (controller) => controller.close())),
    muteWatches: () => each((watcher) => watcher.muted = true),
    watches: () => watchers.size,
    async sockets() {
      // proc(5): local and remote address as hex, then the state; 01 is ESTABLISHED, 08 CLOSE_WAIT.
      const port = http.addr.port.toString(16).toUpperCase().padStart(4, "0");
      const open = new RegExp(`:(${port} \\S+|\\S+:${port}) (01|08) `, "g");
      return [...(await Deno.readTextFile("/proc/self/net/tcp")).matchAll(open)].length;
    },
    async [Symbol.asyncDispose]() {
      server.endWatches();
      await http.shutdown();
    },
  };
  return server;
}

/** A JSON merge patch (RFC 7386). */
function merge(target: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const merged: Record<string, unknown> =
    typeof target === "object" && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = merge(merged[key], value);
  }
  return merged;
}
