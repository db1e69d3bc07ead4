// Just enough HTTP/1.1 on a bare connection for the proxy to close it at any byte, which no server library allows.

const CRLF = "\r\n";
/** A request larger than this is a mistake of the client. */
const LIMIT = 16 * 1024 * 1024;

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** Reads one request after another from a connection. */
export class RequestReader {
  #connection: Deno.Conn;
  #buffer = new Uint8Array(0);

  constructor(connection: Deno.Conn) {
    this.#connection = connection;
  }

  /** The next request with its whole body; undefined at the end. Throws SyntaxError for what is not HTTP/1.x. */
  async next(): Promise<Request | undefined> {
    const head = await this.#until("\r\n\r\n");
    if (head === undefined) return undefined;
    const [first = "", ...lines] = head.split(CRLF);
    const start = first.match(/^([A-Z]+) (\S+) HTTP\/1\.[01]$/);
    if (!start) throw new SyntaxError(`Cannot read a request: its first line is ${first.slice(0, 80)}`);
    const headers = new Headers();
    for (const line of lines) {
      const colon = line.indexOf(":");
      headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
    }
    const body = headers.get("transfer-encoding")?.includes("chunked")
      ? await this.#chunks()
      : await this.#exactly(Number(headers.get("content-length") ?? 0));
    return { method: start[1]!, path: start[2]!, headers, body };
  }

  async #more(): Promise<boolean> {
    const chunk = new Uint8Array(64 * 1024);
    const count = await this.#connection.read(chunk);
    if (count === null) return false;
    const joined = new Uint8Array(this.#buffer.length + count);
    joined.set(this.#buffer);
    joined.set(chunk.subarray(0, count), this.#buffer.length);
    if (joined.length > LIMIT) {
      throw new RangeError(`Cannot read a request: it is longer than ${LIMIT} bytes`);
    }
    this.#buffer = joined;
    return true;
  }

  /** The text up to a mark, which is consumed; undefined when the connection ends before any byte of it. */
  async #until(mark: string): Promise<string | undefined> {
    while (true) {
      // Latin 1: one character per byte, so that positions agree.
      const text = new TextDecoder("latin1").decode(this.#buffer.subarray(0, 64 * 1024));
      const at = text.indexOf(mark);
      if (at >= 0) {
        this.#buffer = this.#buffer.slice(at + mark.length);
        return text.slice(0, at);
      }
      if (!await this.#more()) {
        if (this.#buffer.length === 0) return undefined;
        throw new SyntaxError("Cannot read a request: the connection ended in its middle");
      }
    }
  }

  async #exactly(length: number): Promise<Uint8Array<ArrayBuffer>> {
    while (this.#buffer.length < length) {
      if (!await this.#more()) {
        throw new SyntaxError("Cannot read a request: its body is shorter than announced");
      }
    }
    const body = this.#buffer.slice(0, length);
    this.#buffer = this.#buffer.slice(length);
    return body;
  }

  async #chunks(): Promise<Uint8Array<ArrayBuffer>> {
    const parts: Uint8Array<ArrayBuffer>[] = [];
    while (true) {
      const size = parseInt(await this.#until(CRLF) ?? "0", 16);
      if (size === 0) break;
      parts.push(await this.#exactly(size));
      await this.#exactly(2);
    }
    await this.#until(CRLF);
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  }
}

export interface Response {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Uint8Array;
}

/** Writes an answer; only the first `bytes` of its body when given, though the whole length is announced. */
export async function writeResponse(
  connection: Deno.Conn,
  response: Response,
  bytes?: number,
): Promise<void> {
  const lines = [`HTTP/1.1 ${response.status} `];
  for (const [name, value] of response.headers) {
    if (!HOP_BY_HOP.has(name)) lines.push(`${name}: ${value}`);
  }
  // 204 and 304 have no body, and must not announce one (RFC 9110, 8.6).
  if (response.status !== 204 && response.status !== 304) {
    lines.push(`content-length: ${response.body.length}`);
  }
  const head = new TextEncoder().encode(lines.join(CRLF) + CRLF + CRLF);
  const body = bytes === undefined ? response.body : response.body.subarray(0, bytes);
  const all = new Uint8Array(head.length + body.length);
  all.set(head);
  all.set(body, head.length);
  for (let at = 0; at < all.length;) at += await connection.write(all.subarray(at));
}

/** Headers that belong to one connection (RFC 9110, 7.6.1), and the lengths, which are written anew. */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "transfer-encoding",
  "te",
  "trailer",
  "upgrade",
  "proxy-authorization",
  "proxy-authenticate",
  "content-length",
  "content-encoding",
  "host",
  "expect",
]);
