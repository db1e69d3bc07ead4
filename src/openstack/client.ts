import type { Cloud } from "./clouds.ts";
import type {
  OpenStack,
  OpenStackRequest,
  OpenStackResponse,
  Query,
  SeenRequest,
  Service,
} from "./contract.ts";
import { OpenStackError } from "./errors.ts";
import { heldBack, Holds } from "./hold.ts";
import { type Call, Clients, errorOf, send, type Transport } from "./http.ts";
import { Keystone, type Session } from "./keystone.ts";

export interface OpenStackClientOptions {
  fetch?: typeof fetch;
  /** Milliseconds since the epoch. */
  now?: () => number;
  /** Called once per HTTP call, Keystone's included. */
  onRequest?: (seen: SeenRequest) => void;
  /** Deadlines of a call that sets none; also of getting a token (reading). Default 30 s and 60 s. */
  readTimeoutMs?: number;
  writeTimeoutMs?: number;
}

/**
 * One cloud by one set of credentials, over native fetch. It authenticates by itself, again before the token
 * expires, and once per request when a service answers 401.
 */
export class OpenStackClient implements OpenStack, AsyncDisposable {
  readonly #cloud: Cloud;
  readonly #transport: Transport;
  readonly #keystone: Keystone;
  readonly #readTimeoutMs: number;
  readonly #writeTimeoutMs: number;
  /** Until when a service is not called, in milliseconds since the epoch, and the failure that is the reason. */
  readonly #held = new Map<Service, { until: number; failure: OpenStackError }>();
  readonly #holds = new Map<Service, Holds>();

  constructor(cloud: Cloud, options: OpenStackClientOptions = {}) {
    this.#cloud = cloud;
    this.#readTimeoutMs = options.readTimeoutMs ?? 30_000;
    this.#writeTimeoutMs = options.writeTimeoutMs ?? 60_000;
    this.#transport = {
      fetch: options.fetch ?? fetch,
      now: options.now ?? Date.now,
      onRequest: options.onRequest ?? (() => {}),
      clients: new Clients(cloud.caCert),
    };
    this.#keystone = new Keystone(cloud, { transport: this.#transport, timeoutMs: this.#readTimeoutMs });
  }

  async request(request: OpenStackRequest): Promise<OpenStackResponse> {
    const session = await this.#keystone.session(request);
    const first = await this.#send(request, session);
    if (first.answer.status !== 401) return this.#settled(first);
    const renewed = await this.#keystone.session({ ...request, refused: session.token });
    return this.#settled(await this.#send(request, renewed));
  }

  /** Id of the project that the credentials are for. */
  async projectID(options: { signal?: AbortSignal } = {}): Promise<string> {
    return (await this.#keystone.session(options)).projectID;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#keystone[Symbol.dispose]();
    this.#transport.clients[Symbol.dispose]();
    return Promise.resolve();
  }

  async #send(
    request: OpenStackRequest,
    session: Session,
  ): Promise<{ call: Call; answer: OpenStackResponse }> {
    const { service, method, path } = request;
    const endpoint = session.endpoints.get(service);
    if (endpoint === undefined) {
      const region = this.#cloud.region === undefined ? "" : ` and region "${this.#cloud.region}"`;
      throw new OpenStackError(
        `Cannot call ${service}: the catalog has no endpoint with interface "${this.#cloud.interface}"${region}; ` +
          "check region_name and interface in clouds.yaml",
        { service, method, path, status: 0, type: "NoEndpoint", ambiguous: false },
      );
    }
    const held = this.#held.get(service);
    const restMs = (held?.until ?? 0) - this.#transport.now();
    if (held && restMs > 0) throw heldBack(held.failure, restMs);
    const call: Call = {
      service,
      method,
      path,
      url: endpoint + path + search(request.query),
      headers: {
        "x-auth-token": session.token,
        ...(request.body === undefined ? {} : { "content-type": "application/json" }),
        ...request.headers,
      },
      timeoutMs: request.timeoutMs ?? (method === "GET" ? this.#readTimeoutMs : this.#writeTimeoutMs),
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
      ...(request.signal === undefined ? {} : { signal: request.signal }),
    };
    try {
      const answer = await send(this.#transport, call);
      this.#holds.delete(service);
      return { call, answer };
    } catch (error) {
      // A write that took too long may be one slow job, and has to be read back at once; a read that did is a sign.
      if (error instanceof OpenStackError && error.type === "Timeout" && method === "GET") {
        const holds = this.#holds.get(service) ?? new Holds();
        this.#holds.set(service, holds);
        this.#held.set(service, { until: this.#transport.now() + holds.next(), failure: error });
      }
      throw error;
    }
  }

  #settled({ call, answer }: { call: Call; answer: OpenStackResponse }): OpenStackResponse {
    if (answer.status >= 200 && answer.status <= 299) return answer;
    const error = errorOf(call, answer, this.#transport.now());
    if (error.retryAfterMs !== undefined && [429, 498, 503].includes(error.status)) {
      this.#held.set(call.service, { until: this.#transport.now() + error.retryAfterMs, failure: error });
    }
    throw error;
  }
}

function search(query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) params.append(key, String(one));
  }
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}
