// /healthz, /readyz and /metrics over HTTP/1.1, one request a connection: all that a kubelet or a Prometheus asks for.
// Not `Deno.serve`, on purpose: its machinery costs some 2 MiB of the agent's budget (`deno task bench --only agent`).
import { parseAddress } from "../../src/process/address.ts";

/** What a path answers. */
export interface Answer {
  readonly status: 200 | 503;
  readonly body: string;
}

/** What to serve. */
export interface ProbeServerOptions {
  /** ":9903" or "127.0.0.1:0". */
  readonly address: string;
  /** By path. A rejection is answered by 500. */
  readonly routes: Readonly<Record<string, () => Answer | Promise<Answer>>>;
  /** How long a client may take to send its request, 10 s. */
  readonly readMs?: number;
}

/** A running server. */
export interface ProbeServer extends AsyncDisposable {
  /** The port it listens at: the free one that was found when 0 was asked for. */
  readonly port: number;
}

/** Of the request: line and headers. A body is not expected, and not read. */
const MAX_REQUEST_BYTES = 16 * 1024;
/** Clients served at a time; more are turned away. */
const MAX_CONNECTIONS = 32;
const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  404: "Not Found",
  405: "Method Not Allowed",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

/** Serves until disposed. Throws SyntaxError for a bad address, Deno.errors.AddrInUse. */
export function serveProbes({ address, routes, readMs = 10_000 }: ProbeServerOptions): ProbeServer {
  const listener = Deno.listen(parseAddress(address));
  const open = new Set<Deno.Conn>();
  const running = new Set<Promise<void>>();

  async function serve(connection: Deno.Conn): Promise<void> {
    const timer = setTimeout(() => close(connection), readMs);
    try {
      const request = await readRequest(connection);
      clearTimeout(timer);
      if (request !== undefined) await writeAll(connection, await respond(request));
    } catch {
      // The client went away.
    } finally {
      clearTimeout(timer);
      open.delete(connection);
      close(connection);
    }
  }

  async function respond(request: string): Promise<Uint8Array> {
    const [method, target, protocol] = (request.split("\r\n", 1)[0] ?? "").split(" ");
    if (!target?.startsWith("/") || !protocol?.startsWith("HTTP/1.")) return response(400, "Bad request\n");
    if (method !== "GET" && method !== "HEAD") return response(405, "Method not allowed\n");
    const path = target.split("?", 1)[0]!;
    const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
    if (!route) return response(404, "Not found\n");
    try {
      const { status, body } = await route();
      return response(status, body, method === "HEAD");
    } catch (error) {
      return response(500, `${error instanceof Error ? error.message : String(error)}\n`);
    }
  }

  async function accept(): Promise<void> {
    for await (const connection of listener) {
      if (open.size >= MAX_CONNECTIONS) {
        close(connection);
        continue;
      }
      open.add(connection);
      const done = serve(connection);
      running.add(done);
      done.finally(() => running.delete(done));
    }
  }

  const accepting = accept();
  return {
    port: (listener.addr as Deno.NetAddr).port,
    async [Symbol.asyncDispose]() {
      listener.close();
      for (const connection of open) close(connection);
      await accepting;
      await Promise.all(running);
    },
  };
}

/** The request up to the empty line; undefined when the client ends or sends too much before it. */
async function readRequest(connection: Deno.Conn): Promise<string | undefined> {
  const buffer = new Uint8Array(MAX_REQUEST_BYTES);
  const decoder = new TextDecoder();
  let text = "";
  for (let size = 0; size < buffer.length;) {
    const count = await connection.read(buffer.subarray(size));
    if (count === null) return undefined;
    text += decoder.decode(buffer.subarray(size, size + count), { stream: true });
    if (text.includes("\r\n\r\n")) return text;
    size += count;
  }
  return undefined;
}

function response(status: number, body: string, headOnly = false): Uint8Array {
  const encoder = new TextEncoder();
  const bytes = encoder.encode(body);
  const head = encoder.encode(
    `HTTP/1.1 ${status} ${REASONS[status]}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n` +
      `Content-Length: ${bytes.length}\r\nConnection: close\r\n${
        status === 405 ? "Allow: GET, HEAD\r\n" : ""
      }\r\n`,
  );
  if (headOnly) return head;
  const whole = new Uint8Array(head.length + bytes.length);
  whole.set(head);
  whole.set(bytes, head.length);
  return whole;
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let sent = 0; sent < bytes.length;) sent += await connection.write(bytes.subarray(sent));
}

/** Closing twice, or after the peer's reset, throws in Deno. */
function close(connection: Deno.Conn): void {
  try {
    connection.close();
  } catch {
    // It is closed.
  }
}
