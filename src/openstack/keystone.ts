// Keystone v3 tokens (https://docs.openstack.org/api-ref/identity/v3/#authentication-and-token-management).
import { z } from "zod";
import type { Cloud } from "./clouds.ts";
import type { Service } from "./contract.ts";
import { OpenStackError } from "./errors.ts";
import { heldBack, HOLD_MS, Holds } from "./hold.ts";
import { type Call, errorOf, send, type Transport } from "./http.ts";

/** A token and what came with it. `token` is a secret. */
export interface Session {
  token: string;
  /** Milliseconds since the epoch, by our clock. */
  issuedAt: number;
  expiresAt: number;
  projectID: string;
  /** Endpoint per service, without a slash behind; a service that the catalog lacks is not there. */
  endpoints: ReadonlyMap<Service, string>;
}

const date = z.string().refine((text) => !Number.isNaN(Date.parse(text)), "is no date").transform(Date.parse);

const answer = z.object({
  token: z.object({
    expires_at: date,
    issued_at: date.optional(),
    project: z.object({ id: z.string() }),
    catalog: z.array(z.object({
      type: z.string(),
      endpoints: z.array(z.object({
        interface: z.string(),
        region: z.string().nullish(),
        region_id: z.string().nullish(),
        url: z.string(),
      })),
    })),
  }),
});

type Catalog = z.infer<typeof answer>["token"]["catalog"];

/** A token that has less than this left (or a quarter of its life) is renewed before it is used. */
const RENEW_BEFORE_MS = 300_000;

/** The token of one cloud: fetched when first needed, renewed before it expires, by one request at a time. */
export class Keystone implements Disposable {
  readonly #cloud: Cloud;
  readonly #transport: Transport;
  readonly #timeoutMs: number;
  readonly #closed = new AbortController();
  #session: Session | undefined;
  #renewal: Promise<Session> | undefined;
  #failed: OpenStackError | undefined;
  #heldUntil = 0;
  readonly #holds = new Holds();

  constructor(cloud: Cloud, options: { transport: Transport; timeoutMs: number }) {
    this.#cloud = cloud;
    this.#transport = options.transport;
    this.#timeoutMs = options.timeoutMs;
  }

  /**
   * A session that is good to use.
   * @param options.refused a token that a service has just answered 401 to: a session with another one is wanted
   * @throws OpenStackError of service "identity" when Keystone refuses or does not answer
   */
  async session(options: { refused?: string; signal?: AbortSignal } = {}): Promise<Session> {
    options.signal?.throwIfAborted();
    const now = this.#transport.now();
    const current = this.#session;
    const usable = current && current.token !== options.refused && current.expiresAt > now
      ? current
      : undefined;
    const held = this.#heldUntil > now;
    if (usable && (held || !this.#due(usable, now))) return usable;
    if (this.#failed && held) throw heldBack(this.#failed, this.#heldUntil - now);
    this.#renewal ??= this.#renew();
    try {
      return await unlessAborted(this.#renewal, options.signal);
    } catch (error) {
      // A Keystone that is down need not stop work while the old token is still good.
      if (usable && error instanceof OpenStackError && usable.expiresAt > this.#transport.now()) {
        return usable;
      }
      throw error;
    }
  }

  [Symbol.dispose](): void {
    this.#closed.abort();
  }

  #due(session: Session, now: number): boolean {
    const before = Math.min(RENEW_BEFORE_MS, (session.expiresAt - session.issuedAt) / 4);
    return session.expiresAt - now < before;
  }

  // Not bound to the signal of the caller that came first: the others wait for it too.
  async #renew(): Promise<Session> {
    try {
      const session = await this.#authenticate();
      this.#session = session;
      this.#failed = undefined;
      this.#holds.reset();
      return session;
    } catch (error) {
      const slow = error instanceof OpenStackError && error.type === "Timeout";
      const refused = error instanceof OpenStackError && [400, 401, 403, 404].includes(error.status);
      this.#heldUntil = this.#transport.now() + (slow ? this.#holds.next() : HOLD_MS);
      this.#failed = slow || refused ? error : undefined;
      throw error;
    } finally {
      this.#renewal = undefined;
    }
  }

  async #authenticate(): Promise<Session> {
    const call: Call = {
      service: "identity",
      method: "POST",
      path: "/auth/tokens",
      url: `${this.#cloud.authURL}/auth/tokens`,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(authRequest(this.#cloud.auth)),
      timeoutMs: this.#timeoutMs,
      signal: this.#closed.signal,
    };
    const issuedAt = this.#transport.now();
    const got = await send(this.#transport, call);
    if (got.status !== 201 && got.status !== 200) throw errorOf(call, got, this.#transport.now());
    const token = got.headers.get("x-subject-token");
    const parsed = answer.safeParse(got.body);
    if (!token || !parsed.success) {
      const what = parsed.error?.issues.map((issue) => `${issue.path.join(".")} ${issue.message}`).join(", ");
      throw new OpenStackError(
        `Cannot use Keystone's token: ${what ?? "the answer has no X-Subject-Token header"}`,
        {
          service: "identity",
          method: "POST",
          path: call.path,
          status: got.status,
          type: "UnexpectedAnswer",
          ambiguous: false,
        },
      );
    }
    const { expires_at, issued_at } = parsed.data.token;
    return {
      token,
      issuedAt,
      // Its life counts from when we asked: our clock and Keystone's may differ by more than that life.
      expiresAt: issued_at === undefined ? expires_at : issuedAt + (expires_at - issued_at),
      projectID: parsed.data.token.project.id,
      endpoints: endpointsOf(parsed.data.token.catalog, this.#cloud),
    };
  }
}

/** The body of `POST /auth/tokens`. An application credential is already bound to its project and takes no scope. */
export function authRequest(auth: Cloud["auth"]): unknown {
  if (auth.kind === "applicationCredential") {
    return {
      auth: {
        identity: {
          methods: ["application_credential"],
          application_credential: { ...auth.credential, secret: auth.secret },
        },
      },
    };
  }
  return {
    auth: {
      identity: {
        methods: ["password"],
        password: { user: { ...auth.user, password: auth.password } },
      },
      scope: { project: auth.project },
    },
  };
}

/** Per service the first endpoint of the cloud's interface and region. */
export function endpointsOf(
  catalog: Catalog,
  cloud: Pick<Cloud, "interface" | "region" | "authURL">,
): Map<Service, string> {
  const found = new Map<Service, string>();
  for (const service of ["network", "compute", "identity"] as const) {
    const endpoint = catalog.filter((entry) => entry.type === service).flatMap((entry) => entry.endpoints)
      .find(
        (one) =>
          one.interface.replace(/URL$/, "") === cloud.interface &&
          (cloud.region === undefined || one.region === cloud.region || one.region_id === cloud.region),
      );
    // Some catalogs name Neutron's version, most do not; our paths do.
    const url = endpoint?.url.replace(/\/+$/, "");
    if (url !== undefined) found.set(service, service === "network" ? url.replace(/\/v2\.0$/, "") : url);
  }
  // Keystone's catalog entry may name an address that only the cloud's own machines reach.
  found.set("identity", cloud.authURL);
  return found;
}

/** `promise`, or the signal's reason if that comes first. The promise goes on, with its failure heard. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  const { promise: first, resolve, reject } = Promise.withResolvers<T>();
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort);
  promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  return first;
}
