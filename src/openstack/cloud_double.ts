// A small OpenStack on loopback for the unit tests: Keystone, Neutron and Nova as far as we call them, answering as the
// real services were measured to, with faults on demand. What the real ones do is tests/openstack_test.ts's to show.
import assert from "node:assert/strict";
import { OpenStackClient, type OpenStackClientOptions } from "./client.ts";
import type { Cloud } from "./clouds.ts";
import type { OpenStack, OpenStackResponse } from "./contract.ts";
import {
  createDoubleServices,
  type Item,
  json,
  Refusal,
  type SeenCall,
  type Settings,
} from "./double_services.ts";
import { OpenStackError } from "./errors.ts";

/** Something that goes wrong with the calls that match. */
export interface Fault {
  /** `METHOD /path`, without the service's prefix. */
  match: RegExp;
  /** How many calls; default 1. */
  times?: number;
  /** Calls that match and are let through first. */
  skip?: number;
  /** Answered instead of doing anything. */
  status?: number;
  body?: unknown;
  headers?: Record<string, string>;
  /** The connection breaks in the middle of the answer, before or after the work was done. */
  cut?: "before" | "after";
  /** The work is done, and this status answered all the same. */
  statusAfter?: number;
  /** Never answers. */
  hang?: boolean;
  /** Runs before the call is looked at: what somebody else does in between. */
  meanwhile?: () => void;
}

export interface CloudDouble extends AsyncDisposable, Settings {
  cloud: Cloud;
  calls: SeenCall[];
  /** Neutron's and Nova's objects, by collection. */
  items: Record<string, Item[]>;
  tokens: Set<string>;
  /** Life of a token, in seconds. */
  tokenLife: number;
  /** Keystone's clock, in milliseconds since the epoch. */
  clock: () => number;
  client(options?: OpenStackClientOptions): OpenStackClient;
  /** Answers without a connection, for tests of many thousand calls. */
  fetch: typeof fetch;
  fail(fault: Fault): void;
  /** Faults that were never met. */
  unmet(): RegExp[];
  /** Calls as `METHOD /path`. */
  seen(match: RegExp): SeenCall[];
}

/** Starts the double. It has network N, subnet S (10.0.0.0/24), external network X, router R, servers A and B. */
export function startCloudDouble(now: () => number = Date.now): CloudDouble {
  const faults: { fault: Fault; left: number; skip: number }[] = [];
  const double: CloudDouble = {
    cloud: {
      name: "double",
      authURL: "",
      auth: { kind: "password", user: { id: "u" }, password: "sesame", project: { id: "p" } },
      interface: "public",
    },
    calls: [],
    items: {},
    extensions: ["standard-attr-tag", "extraroute-atomic"],
    tokens: new Set(),
    tokenLife: 3600,
    clock: now,
    pageSize: undefined,
    detachReads: 1,
    client: (options = {}) => new OpenStackClient(double.cloud, { now, ...options }),
    fetch: (input: Request | URL | string, init?: RequestInit) => answer(new Request(input, init), cutShort),
    fail: (fault) => void faults.push({ fault, left: fault.times ?? 1, skip: fault.skip ?? 0 }),
    unmet: () => faults.filter(({ left }) => left > 0).map(({ fault }) => fault.match),
    seen: (match) => double.calls.filter((call) => match.test(`${call.method} ${call.path}`)),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };

  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request) => answer(request, broken),
  );

  async function answer(request: Request, cut: () => Response): Promise<Response> {
    const url = new URL(request.url);
    const text = await request.text();
    const [, service = "", ...rest] = url.pathname.split("/");
    const path = `/${rest.join("/")}`;
    const call: SeenCall = {
      method: request.method,
      path,
      query: url.searchParams,
      headers: request.headers,
      body: text ? JSON.parse(text) : undefined,
    };
    double.calls.push(call);
    const armed = faults.find(({ fault, left }) => left > 0 && fault.match.test(`${call.method} ${path}`));
    let fault: Fault | undefined;
    if (armed && armed.skip-- <= 0) {
      armed.left--;
      fault = armed.fault;
    }
    fault?.meanwhile?.();
    if (fault?.hang) return await hang(request.signal);
    if (fault?.cut === "before") return cut();
    if (fault?.status) return json(fault.status, fault.body, fault.headers);
    let done: Response;
    try {
      done = handle(service, call);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      done = service === "compute"
        ? json(error.status, { [error.type]: { code: error.status, message: error.type } })
        : json(error.status, {
          NeutronError: { type: error.type, message: `${error.type} it is`, detail: "" },
        });
    }
    if (fault?.cut === "after") return cut();
    if (fault?.statusAfter) return json(fault.statusAfter, fault.body, fault.headers);
    return done;
  }

  const { items, neutron, nova, nextID } = createDoubleServices(double);
  double.items = items;
  const base = `http://127.0.0.1:${server.addr.port}`;
  double.cloud = { ...double.cloud, authURL: `${base}/identity/v3` };
  return double;

  function handle(service: string, call: SeenCall): Response {
    if (service === "identity") return authenticate();
    if (!double.tokens.has(call.headers.get("x-auth-token") ?? "")) {
      return json(401, {
        error: { code: 401, title: "Unauthorized", message: "The request needs authentication" },
      });
    }
    return service === "compute" ? nova(call) : neutron(call);
  }

  function authenticate(): Response {
    const token = nextID("token");
    double.tokens.add(token);
    const endpoint = (type: string, url: string) => ({
      type,
      endpoints: [
        { interface: "internal", region: "One", region_id: "One", url: `${url}/internal` },
        { interface: "public", region: "One", region_id: "One", url },
      ],
    });
    return json(201, {
      token: {
        issued_at: new Date(double.clock()).toISOString(),
        expires_at: new Date(double.clock() + double.tokenLife * 1000).toISOString(),
        project: { id: "p" },
        catalog: [endpoint("network", `${base}/network/`), endpoint("compute", `${base}/compute`)],
      },
    }, { "x-subject-token": token });
  }
}

/** An answer that breaks off: fewer bytes come than were announced. */
function broken(): Response {
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"half'));
      controller.close();
    },
  });
  return new Response(body, { status: 200, headers: { "content-length": "100" } });
}

/** The same without a connection, where it is the reader that learns it. */
function cutShort(): Response {
  return new Response(new ReadableStream({ pull: (controller) => controller.error(new TypeError("cut")) }));
}

function hang(signal: AbortSignal): Promise<Response> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(new Response())));
}

/** A read that every test can make. */
export function networks(
  os: OpenStack,
  options: { signal?: AbortSignal; timeoutMs?: number } = {},
): Promise<OpenStackResponse> {
  return os.request({ service: "network", method: "GET", path: "/v2.0/networks", ...options });
}

/** The error of a call that has to fail. */
export async function failure(promise: Promise<unknown>): Promise<OpenStackError> {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof OpenStackError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "it succeeded" });
}
