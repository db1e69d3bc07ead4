// The fault proxy between the controller and OpenStack. Paths /identity, /network, /compute and /placement lead to the
// real services; every address of theirs in an answer (catalog, pagination, links, Location) is rewritten to lead here.
// Faults are set over the control API: PUT, GET, DELETE /rules; GET /log?last=N.
//
//   deno run -A tests/lab/proxy/main.ts --listen 172.30.0.1:5900 --control 127.0.0.1:5901 --host 172.30.0.1

import { parseArgs } from "node:util";
import { callName, Faults, parseRules, type Rule } from "./faults.ts";
import { HOP_BY_HOP, type Request, RequestReader, type Response, writeResponse } from "./http1.ts";

/** Prefix → port of the real service. */
export const SERVICES: Readonly<Record<string, number>> = {
  identity: 5000,
  network: 9696,
  compute: 8774,
  placement: 8778,
};

const LOG_LENGTH = 2000;

/** One call as it is remembered. Bodies are not: Keystone's hold passwords. */
export interface LogEntry {
  readonly at: string;
  readonly method: string;
  readonly path: string;
  /** What the client was answered; 0 for a connection that was cut. */
  readonly status: number;
  /** What the service answered; absent when the call was not forwarded. */
  readonly upstream?: number;
  readonly rule?: string;
  readonly ms: number;
}

export interface Log {
  /** Every call since the start, by its name: `GET /network/v2.0/ports/{id}`. */
  readonly counts: Readonly<Record<string, number>>;
  readonly calls: readonly LogEntry[];
}

export interface ProxyOptions {
  readonly listen: { readonly hostname: string; readonly port: number };
  readonly control: { readonly hostname: string; readonly port: number };
  /** Prefix → base URL of the real service, `http://172.30.0.1:9696`. */
  readonly services: Readonly<Record<string, string>>;
}

/** A running proxy. */
export class Proxy implements AsyncDisposable {
  readonly faults = new Faults();
  readonly address: Deno.NetAddr;
  readonly controlAddress: Deno.NetAddr;
  #services: Readonly<Record<string, string>>;
  #listener: Deno.TcpListener;
  #control: Deno.HttpServer<Deno.NetAddr>;
  #open = new Set<Deno.Conn>();
  #calls: LogEntry[] = [];
  #counts: Record<string, number> = {};

  constructor(options: ProxyOptions) {
    this.#services = options.services;
    this.#listener = Deno.listen(options.listen);
    this.address = this.#listener.addr as Deno.NetAddr;
    this.#control = Deno.serve(
      { ...options.control, onListen() {} },
      (request) => this.#answerControl(request),
    );
    this.controlAddress = this.#control.addr;
    this.#accept();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const connection of this.#open) close(connection);
    await this.#control.shutdown();
  }

  async #accept(): Promise<void> {
    for await (const connection of this.#listener) {
      this.#open.add(connection);
      this.#serve(connection)
        // A client that goes away, or speaks no HTTP, ends its own connection only.
        .catch(() => {})
        .finally(() => {
          this.#open.delete(connection);
          close(connection);
        });
    }
  }

  async #serve(connection: Deno.Conn): Promise<void> {
    const reader = new RequestReader(connection);
    for (let request; (request = await reader.next());) {
      const keep = await this.#handle(connection, request);
      if (!keep || request.headers.get("connection")?.toLowerCase() === "close") return;
    }
  }

  /** Answers one request; false when the connection is to be closed. */
  async #handle(connection: Deno.Conn, request: Request): Promise<boolean> {
    const started = performance.now();
    const rule = this.faults.choose({
      method: request.method,
      path: request.path,
      body: new TextDecoder().decode(request.body),
    });
    const note = (status: number, upstream?: number) => {
      this.#remember({
        at: new Date().toISOString(),
        method: request.method,
        path: request.path,
        status,
        ...(upstream === undefined ? {} : { upstream }),
        ...(rule ? { rule: rule.id } : {}),
        ms: Math.round(performance.now() - started),
      });
    };
    const action: Rule["action"] = rule?.action ?? { kind: "pass" };
    if (action.kind === "cut-before") {
      note(0);
      return false;
    }
    if (action.kind === "status") {
      const body = new TextEncoder().encode(action.body ?? "");
      const headers = new Headers({ "content-type": "application/json", ...action.headers });
      note(action.code);
      await writeResponse(connection, { status: action.code, headers, body });
      return true;
    }
    if (action.kind === "delay") await new Promise((resolve) => setTimeout(resolve, action.ms));
    const response = await this.#forward(request);
    switch (action.kind) {
      case "cut-after":
        note(0, response.status);
        return false;
      case "broken-body":
        note(response.status, response.status);
        await writeResponse(connection, { ...response, body: new TextEncoder().encode('{"broken": ') });
        return true;
      case "truncate":
        note(response.status, response.status);
        await writeResponse(connection, response, Math.floor(response.body.length / 2));
        return false;
      default:
        note(response.status, response.status);
        await writeResponse(connection, response);
        return true;
    }
  }

  async #forward(request: Request): Promise<Response> {
    const [, prefix = "", rest = ""] = request.path.match(/^\/([^/?]+)(.*)$/) ?? [];
    const base = this.#services[prefix];
    const host = request.headers.get("host") ?? `${this.address.hostname}:${this.address.port}`;
    if (!base) {
      const text = `{"error": "no service at ${prefix}, only ${Object.keys(this.#services).join(", ")}"}`;
      return { status: 404, headers: new Headers(), body: new TextEncoder().encode(text) };
    }
    const headers = new Headers();
    for (const [name, value] of request.headers) {
      if (!HOP_BY_HOP.has(name) && name !== "accept-encoding") headers.append(name, value);
    }
    headers.set("accept-encoding", "identity");
    let answer: globalThis.Response;
    let body: Uint8Array<ArrayBuffer>;
    try {
      answer = await fetch(base + rest, {
        method: request.method,
        headers,
        redirect: "manual",
        ...(request.body.length && request.method !== "GET" ? { body: request.body } : {}),
      });
      body = new Uint8Array(await answer.arrayBuffer());
    } catch (error) {
      const text = JSON.stringify({ error: `the real service can't be reached: ${error}` });
      return { status: 502, headers: new Headers(), body: new TextEncoder().encode(text) };
    }
    const rewritten = new Headers();
    for (const [name, value] of answer.headers) rewritten.append(name, this.#rewrite(value, host));
    const isText = /json|text|xml/.test(answer.headers.get("content-type") ?? "");
    if (isText) body = new TextEncoder().encode(this.#rewrite(new TextDecoder().decode(body), host));
    return { status: answer.status, headers: rewritten, body };
  }

  /** Every address of a real service, as the address here that leads to it. */
  #rewrite(text: string, host: string): string {
    for (const [prefix, base] of Object.entries(this.#services)) {
      text = text.replaceAll(base, `http://${host}/${prefix}`);
    }
    return text;
  }

  #remember(entry: LogEntry): void {
    const name = callName(entry.method, entry.path);
    this.#counts[name] = (this.#counts[name] ?? 0) + 1;
    this.#calls.push(entry);
    if (this.#calls.length > LOG_LENGTH) this.#calls.shift();
  }

  async #answerControl(request: globalThis.Request): Promise<globalThis.Response> {
    const body = await request.text();
    const url = new URL(request.url);
    if (url.pathname === "/log" && request.method === "GET") {
      const last = Number(url.searchParams.get("last") ?? LOG_LENGTH);
      const sorted = Object.fromEntries(Object.entries(this.#counts).sort(([a], [b]) => a < b ? -1 : 1));
      return Response.json({ counts: sorted, calls: last > 0 ? this.#calls.slice(-last) : [] } satisfies Log);
    }
    if (url.pathname !== "/rules") return Response.json({ error: `no ${url.pathname}` }, { status: 404 });
    try {
      if (request.method === "PUT") this.faults.replace(parseRules(JSON.parse(body)));
      else if (request.method === "DELETE") this.faults.replace([]);
      else if (request.method !== "GET") {
        return Response.json({ error: "GET, PUT or DELETE" }, { status: 405 });
      }
    } catch (error) {
      return Response.json({ error: error instanceof Error ? error.message : String(error) }, {
        status: 400,
      });
    }
    return Response.json(this.faults.state());
  }
}

function close(connection: Deno.Conn): void {
  try {
    connection.close();
  } catch {
    // Closed already.
  }
}

/** `172.30.0.1:5900` as an address. */
function address(text: string): { hostname: string; port: number } {
  const [hostname = "", port = ""] = text.split(":");
  return { hostname, port: Number(port) };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      listen: { type: "string", default: "172.30.0.1:5900" },
      control: { type: "string", default: "127.0.0.1:5901" },
      host: { type: "string", default: "172.30.0.1" },
    },
  });
  const services = Object.entries(SERVICES).map((
    [prefix, port],
  ) => [prefix, `http://${values.host}:${port}`]);
  new Proxy({
    listen: address(values.listen),
    control: address(values.control),
    services: Object.fromEntries(services),
  });
}
