/** The one contract with the API server, on native `fetch`. Everything else in this folder is built on it. */
import { jitter, sleep } from "../process/clock.ts";
import { errorText } from "../process/log.ts";
import type { KubeConnection } from "./connection.ts";
import { DeadlineError, linkAbort, type LinkedAbort, withDeadline } from "./deadline.ts";
import { errorFromAnswer, KubeError } from "./errors.ts";
import { type LineStream, readLines } from "./lines.ts";
import { createTransport } from "./transport.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface KubeRequest {
  method: Method;
  /** Path from the root, encoded: `/api/v1/nodes`. */
  path: string;
  /** Parameters; undefined ones are left out. */
  query?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
  /** Sent as JSON. */
  body?: unknown;
  /** `application/json` by default. */
  contentType?: string | undefined;
  accept?: string | undefined;
  /** For the whole call with its retries; for a stream until the headers of the answer. The client's by default. */
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface KubeClient {
  /**
   * One call; resolves with the parsed JSON of the answer (undefined when it is empty).
   *
   * 429 is waited out as `Retry-After` says, 503 too when it has one or the call only reads; a GET that met a cut
   * connection is sent again. (Deno 2.9 itself sends a request again, a POST too, when a kept connection was closed
   * before the answer: what is written must be safe to write twice, as apply, versions and names make it.) All within the call's deadline, at most {@linkcode MAX_RETRIES} times.
   *
   * @throws KubeError for every answer but 2xx, no answer, or the deadline; the signal's reason when it aborted.
   */
  request<T>(request: KubeRequest): Promise<T>;
  /**
   * Opens an answer that goes on: a watch, a log.
   *
   * @throws KubeError as {@linkcode KubeClient.request}, until the headers; the lines then throw what the body does.
   */
  stream(request: KubeRequest): Promise<LineStream>;
}

/** How often one call is sent again at most. */
export const MAX_RETRIES = 4;

export interface KubeClientOptions {
  /** Default deadline of a call, 30 s. */
  timeoutMs?: number;
  userAgent?: string;
  fetch?: typeof fetch;
  random?: () => number;
  /** Told of each answer (code 0: none), for metrics. */
  onAnswer?: (answer: { method: Method; code: number; ms: number }) => void;
}

/** A client of its own connections, to be disposed. */
export type OwnedKubeClient = KubeClient & Disposable;

/** `Retry-After` in ms; only the form in seconds, the API server sends no other. */
function retryAfterMs(answer: Response): number | undefined {
  const seconds = Number(answer.headers.get("retry-after") ?? NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}

function pathWithQuery({ path, query }: KubeRequest): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) search.set(name, String(value));
  }
  const text = search.toString();
  return path + (text ? `?${text}` : "");
}

/** A client for `connection`. Dispose it to close its idle connections. */
export function createKubeClient(
  connection: KubeConnection,
  options: KubeClientOptions = {},
): OwnedKubeClient {
  const { timeoutMs = 30_000, userAgent = "ipsec-operator", random = Math.random, onAnswer } = options;
  const transport = createTransport(connection, options.fetch);

  /** Sends once. Its answer may be any; it throws only for credentials and for no answer. */
  async function send(request: KubeRequest, { signal, fresh }: { signal: AbortSignal; fresh: boolean }) {
    const { method, body } = request;
    const started = performance.now();
    let code = 0;
    try {
      const answer = await transport.send({
        method,
        path: pathWithQuery(request),
        headers: {
          accept: request.accept ?? "application/json",
          "user-agent": userAgent,
          ...body === undefined ? {} : { "content-type": request.contentType ?? "application/json" },
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      }, { signal, fresh });
      code = answer.status;
      return answer;
    } finally {
      onAnswer?.({ method, code, ms: performance.now() - started });
    }
  }

  /** Sends until there is a success, or an answer that another try won't change. */
  async function sendUntilAnswered<T>(
    request: KubeRequest,
    { signal, until, take }: { signal: AbortSignal; until: number; take: (answer: Response) => Promise<T> },
  ): Promise<T> {
    const what = `${request.method} ${request.path}`;
    let fresh = false;
    for (let attempt = 0;; attempt++) {
      let failure: KubeError;
      let waitMs: number | undefined;
      const backoffMs = jitter(250 * 2 ** attempt, { random });
      try {
        const answer = await send(request, { signal, fresh });
        if (answer.ok) return await take(answer);
        failure = errorFromAnswer(what, { code: answer.status, body: await answer.text() });
        const told = retryAfterMs(answer);
        if (answer.status === 401 && !fresh) waitMs = 0;
        else if (answer.status === 429) waitMs = told ?? backoffMs;
        else if (answer.status === 503 && (told !== undefined || request.method === "GET")) {
          waitMs = told ?? backoffMs;
        }
        fresh = answer.status === 401;
      } catch (error) {
        if (signal.aborted || !(error instanceof TypeError || error instanceof Deno.errors.Http)) throw error;
        failure = new KubeError(`Cannot ${what}: ${connection.server} does not answer: ${errorText(error)}`, {
          code: 0,
          reason: "Unreachable",
          cause: error,
        });
        // A write that was cut off may have been done: its caller must look. It may also be that the CA was changed.
        if (request.method === "GET" && attempt < 2) waitMs = backoffMs;
        fresh = true;
      }
      if (waitMs === undefined || attempt >= MAX_RETRIES || performance.now() + waitMs >= until) {
        throw failure;
      }
      if (waitMs > 0 && !await sleep(waitMs, { signal })) throw signal.reason;
    }
  }

  /** The whole of a call under its deadline; `link` is what its answer hangs on. */
  async function call<T>(
    request: KubeRequest,
    { link, take }: { link: LinkedAbort; take: (answer: Response) => Promise<T> },
  ): Promise<T> {
    const ms = request.timeoutMs ?? timeoutMs;
    const until = performance.now() + ms;
    try {
      return await withDeadline(
        { ms, link },
        (signal) => sendUntilAnswered(request, { signal, until, take }),
      );
    } catch (error) {
      if (!(error instanceof DeadlineError)) throw error;
      throw new KubeError(
        `Cannot ${request.method} ${request.path}: ${connection.server} gave no answer within ${ms} ms`,
        { code: 0, reason: "Timeout", cause: error },
      );
    }
  }

  return {
    async request<T>(request: KubeRequest): Promise<T> {
      using link = linkAbort(request.signal);
      const take = async (answer: Response) => {
        const text = await answer.text();
        if (!text) return undefined as T;
        try {
          return JSON.parse(text) as T;
        } catch (cause) {
          throw new KubeError(
            `Cannot ${request.method} ${request.path}: the answer ${answer.status} is no JSON`,
            { code: answer.status, reason: "Unknown", cause },
          );
        }
      };
      return await call(request, { link, take });
    },

    async stream(request: KubeRequest): Promise<LineStream> {
      const link = linkAbort(request.signal);
      const take = (answer: Response) => {
        if (answer.body) return Promise.resolve(answer.body);
        throw new KubeError(
          `Cannot ${request.method} ${request.path}: the answer ${answer.status} has no body`,
          {
            code: answer.status,
            reason: "Unknown",
          },
        );
      };
      try {
        const body = await call(request, { link, take });
        const close = () => {
          link.abort(new Error("The stream was closed"));
          link[Symbol.dispose]();
        };
        return readLines(body, { signal: link.signal, close });
      } catch (error) {
        link[Symbol.dispose]();
        throw error;
      }
    },

    [Symbol.dispose]: () => transport[Symbol.dispose](),
  };
}
