import type { Method, SeenRequest, Service } from "./contract.ts";
import { OpenStackError } from "./errors.ts";

/** What an HTTP call needs beside what it asks for. */
export interface Transport {
  fetch: typeof fetch;
  clients: Clients;
  /** Milliseconds since the epoch. */
  now: () => number;
  onRequest: (seen: SeenRequest) => void;
}

/** The connections of one cloud. */
export class Clients implements Disposable {
  readonly #caCerts: string[] | undefined;
  #reading: Deno.HttpClient | undefined;
  #writing: Deno.HttpClient | undefined;

  /** @param caCert PEM to trust beside the system's */
  constructor(caCert?: string) {
    this.#caCerts = caCert === undefined ? undefined : [caCert];
  }

  /**
   * The client for a method; undefined for fetch's own. A write gets a connection of its own: on a kept one that the
   * server closes without an answer, fetch sends the request a second time, POST too (measured on Deno 2.9.8), and
   * makes two security groups of one.
   */
  of(method: Method): Deno.HttpClient | undefined {
    const certs = this.#caCerts === undefined ? {} : { caCerts: this.#caCerts };
    if (method !== "GET") return this.#writing ??= Deno.createHttpClient({ poolMaxIdlePerHost: 0, ...certs });
    return this.#caCerts === undefined ? undefined : this.#reading ??= Deno.createHttpClient(certs);
  }

  [Symbol.dispose](): void {
    this.#reading?.close();
    this.#writing?.close();
  }
}

export interface Call {
  service: Service;
  method: Method;
  /** For errors and metrics: the part that tells the calls apart. */
  path: string;
  url: string;
  headers: Readonly<Record<string, string>>;
  /** JSON text. */
  body?: string;
  timeoutMs: number;
  signal?: AbortSignal;
}

export interface Answer {
  status: number;
  headers: Headers;
  body: unknown;
}

/** An answer of ours is never larger than this. */
const MAX_BYTES = 64 << 20;

/**
 * One HTTP call with one deadline for all of it. Answers with what came, whatever its status.
 * @throws OpenStackError (status 0) when there was no whole answer: `Timeout`, `ConnectionFailed`, `UnreadableAnswer`
 * @throws the reason of `call.signal` when that was aborted
 */
export async function send(transport: Transport, call: Call): Promise<Answer> {
  const started = transport.now();
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), call.timeoutMs);
  const abort = () => deadline.abort();
  call.signal?.addEventListener("abort", abort);
  let code = "error";
  try {
    call.signal?.throwIfAborted();
    const client = transport.clients.of(call.method);
    const response = await transport.fetch(call.url, {
      method: call.method,
      headers: { accept: "application/json", ...call.headers },
      redirect: "manual",
      signal: deadline.signal,
      ...(call.body === undefined ? {} : { body: call.body }),
      ...(client === undefined ? {} : { client }),
    });
    code = String(response.status);
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: decode(call, response.status, text) };
  } catch (error) {
    call.signal?.throwIfAborted();
    if (error instanceof OpenStackError) throw error;
    const timedOut = deadline.signal.aborted;
    code = timedOut ? "timeout" : "error";
    throw new OpenStackError(
      timedOut
        ? `${call.method} ${call.service} ${call.path} got no answer within ${call.timeoutMs / 1000} s`
        : `${call.method} ${call.service} ${call.path} got no answer: ${root(error)}`,
      { ...fields(call), type: timedOut ? "Timeout" : "ConnectionFailed" },
      { cause: error },
    );
  } finally {
    clearTimeout(timer);
    call.signal?.removeEventListener("abort", abort);
    const { service, method } = call;
    transport.onRequest({ service, method, code, seconds: (transport.now() - started) / 1000 });
  }
}

/** The `OpenStackError` of an answer that is no 2xx. */
export function errorOf(call: Call, answer: Answer, now: number): OpenStackError {
  const { type, message } = fault(answer.body);
  const retryAfterMs = retryAfter(answer.headers.get("retry-after"), now);
  const said = [type, message].filter((part) => part !== "").join(": ");
  return new OpenStackError(
    `${call.method} ${call.service} ${call.path} answered ${answer.status}${said ? ` ${said}` : ""}`,
    {
      ...fields(call),
      status: answer.status,
      type,
      // 501 and 505 refuse; any other 5xx may come after the work was done, or from a proxy while it goes on.
      ambiguous: call.method !== "GET" && answer.status >= 500 && ![501, 505].includes(answer.status),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    },
  );
}

/**
 * The wait that a `Retry-After` asks for (seconds or an HTTP date), at most 5 minutes; undefined when it asks for none.
 */
export function retryAfter(value: string | null, now: number): number | undefined {
  if (value === null) return undefined;
  const text = value.trim();
  const wait = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isNaN(wait) ? undefined : Math.min(Math.max(wait, 0), 300_000);
}

function fields(call: Call) {
  const { service, method, path } = call;
  return { service, method, path, status: 0, type: "", ambiguous: method !== "GET" };
}

function decode(call: Call, status: number, text: string): unknown {
  if (text.length > MAX_BYTES) {
    throw new OpenStackError(
      `${call.method} ${call.service} ${call.path} answered more than ${MAX_BYTES} bytes`,
      {
        ...fields(call),
        status,
        type: "UnreadableAnswer",
      },
    );
  }
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    // The HTML of a load balancer behind an error status says nothing that the status does not.
    if (status < 200 || status > 299) return undefined;
    throw new OpenStackError(
      `${call.method} ${call.service} ${call.path} answered ${status} with a body that is no JSON`,
      { ...fields(call), status, type: "UnreadableAnswer" },
      { cause },
    );
  }
}

/**
 * Type and message of a fault body. Neutron: `{"NeutronError": {type, message}}`; Nova: `{"KEY": {code, message}}`;
 * Keystone: `{"error": {code, title, message}}`; API gateways put strings.
 */
function fault(body: unknown): { type: string; message: string } {
  if (typeof body !== "object" || body === null) return { type: "", message: "" };
  for (const [key, value] of Object.entries(body)) {
    if (typeof value === "string" && /NeutronError|message|error/i.test(key)) {
      return { type: "", message: clip(value) };
    }
    if (typeof value !== "object" || value === null) continue;
    const { type, title, message } = value as Record<string, unknown>;
    const own = key === "NeutronError" ? type : key === "error" ? title : key;
    return {
      type: typeof own === "string" ? own : "",
      message: typeof message === "string" ? clip(message) : "",
    };
  }
  return { type: "", message: "" };
}

/** One line of at most 500 characters. */
function clip(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim().slice(0, 500);
}

/** The innermost cause: fetch hides "connection refused" behind "error sending request". */
function root(error: unknown): string {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  return at instanceof Error ? at.message : String(at);
}
