/** The HTTP server for probes and metrics: `/healthz`, `/readyz`, `/metrics`. */
import { parseAddress } from "./address.ts";
import { type Log, silentLog } from "./log.ts";

/** What is wrong, or undefined when it is well. */
export type HealthCheck = () => string | undefined | Promise<string | undefined>;

export interface HealthOptions {
  /** ":8080", "127.0.0.1:0". */
  address: string;
  /** For `/healthz`, by name: false leads to a restart, so only for what a restart heals. */
  live?: Readonly<Record<string, HealthCheck>>;
  /** For `/readyz`. */
  ready?: Readonly<Record<string, HealthCheck>>;
  /** Text of `/metrics` in Prometheus' format; without it the path is not there. */
  metrics?: (() => string | Promise<string>) | undefined;
  log?: Log;
}

export interface HealthServer extends AsyncDisposable {
  /** The port it listens at: the free one that was found when 0 was asked for. */
  readonly port: number;
}

const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/**
 * Serves until disposed.
 *
 * @throws SyntaxError for a bad address; Deno.errors.AddrInUse.
 */
export function serveHealth(
  { address, live = {}, ready = {}, metrics, log = silentLog }: HealthOptions,
): HealthServer {
  const { hostname, port } = parseAddress(address);
  const server = Deno.serve({
    hostname,
    port,
    onListen: () => {},
    onError: (error) => {
      log.error("Cannot answer a request", { error: error instanceof Error ? error : String(error) });
      return new Response("Internal error\n", { status: 500 });
    },
  }, async (request) => {
    // An answer before the end of the body stalls the connection in several releases of Deno.
    await drain(request.body);
    if (request.method !== "GET" && request.method !== "HEAD") {
      return new Response("Method not allowed\n", { status: 405, headers: { allow: "GET, HEAD" } });
    }
    switch (new URL(request.url).pathname) {
      case "/healthz":
        return await answer(live);
      case "/readyz":
        return await answer(ready);
      case "/metrics":
        if (metrics) return new Response(await metrics(), { headers: { "content-type": METRICS_TYPE } });
    }
    return new Response("Not found\n", { status: 404 });
  });
  return {
    port: server.addr.port,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** 200 "ok", or 503 with a line for each check that fails. */
async function answer(checks: Readonly<Record<string, HealthCheck>>): Promise<Response> {
  const problems: string[] = [];
  for (const [name, check] of Object.entries(checks).sort(([a], [b]) => a < b ? -1 : 1)) {
    let problem: string | undefined;
    try {
      problem = await check();
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
    if (problem) problems.push(`${name}: ${problem}\n`);
  }
  return problems.length ? new Response(problems.join(""), { status: 503 }) : new Response("ok\n");
}

/** Reads and drops a body; one above 1 MiB is cancelled. */
async function drain(body: ReadableStream<Uint8Array> | null): Promise<void> {
  if (!body) return;
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > 1024 * 1024) return;
  }
}
