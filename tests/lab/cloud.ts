// A small OpenStack client for tests and for the fabric: plain fetch, typed by what they read. It shares nothing with
// src/openstack, so that what the operator claims to have done is told by somebody else.

/** A security-group rule as Neutron shows it. */
export interface Rule {
  readonly id: string;
  readonly security_group_id: string;
  readonly direction: "ingress" | "egress";
  readonly ethertype: "IPv4" | "IPv6";
  readonly protocol: string | null;
  readonly port_range_min: number | null;
  readonly port_range_max: number | null;
  readonly remote_ip_prefix: string | null;
  readonly remote_group_id: string | null;
}

export interface SecurityGroup {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly security_group_rules: readonly Rule[];
}

export interface Port {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly network_id: string;
  readonly mac_address: string;
  readonly admin_state_up: boolean;
  readonly device_id: string;
  readonly device_owner: string;
  readonly security_groups: readonly string[];
  readonly port_security_enabled: boolean;
  readonly fixed_ips: readonly { readonly subnet_id: string; readonly ip_address: string }[];
  readonly allowed_address_pairs: readonly { readonly ip_address: string; readonly mac_address: string }[];
}

export interface FloatingIP {
  readonly id: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly floating_ip_address: string;
  readonly fixed_ip_address: string | null;
  readonly port_id: string | null;
  readonly revision_number: number;
}

export interface Network {
  readonly id: string;
  readonly name: string;
  readonly mtu: number;
  readonly subnets: readonly string[];
  readonly "router:external": boolean;
}

export interface Subnet {
  readonly id: string;
  readonly name: string;
  readonly network_id: string;
  readonly cidr: string;
  readonly ip_version: 4 | 6;
  readonly gateway_ip: string | null;
}

export interface Router {
  readonly id: string;
  readonly name: string;
  readonly routes: readonly { readonly destination: string; readonly nexthop: string }[];
  readonly external_gateway_info: {
    readonly external_fixed_ips: readonly { readonly ip_address: string }[];
  } | null;
}

export interface Server {
  readonly id: string;
  readonly name: string;
}

/** Collections of Neutron that the lab reads, by path. */
export interface Collections {
  readonly networks: Network;
  readonly subnets: Subnet;
  readonly ports: Port;
  readonly routers: Router;
  readonly floatingips: FloatingIP;
  readonly "security-groups": SecurityGroup;
  readonly "security-group-rules": Rule;
}

/** An answer of status 400 or above. `type` is `NeutronError.type`, or Keystone's and Nova's title. */
export class CloudError extends Error {
  override readonly name = "CloudError";
  constructor(readonly method: string, readonly url: string, readonly status: number, readonly body: string) {
    super(`Cannot ${method} ${url}: the answer is ${status} ${body.slice(0, 300)}`);
  }
  get type(): string {
    return this.body.match(/"(?:type|title)":\s*"([^"]+)"/)?.[1] ?? "";
  }
}

export interface Login {
  /** Keystone v3, `http://172.30.0.1:5000/v3`. */
  readonly authUrl: string;
  readonly user: string;
  readonly password: string;
  readonly project: string;
}

/** The accounts that the lab's seed makes. */
export const ACCOUNTS = {
  admin: { user: "admin", password: "adminpw", project: "admin" },
  tenant: { user: "tenant", password: "tenantpw", project: "tenant" },
  other: { user: "other", password: "tenantpw", project: "other" },
} as const;

/** The lab's Keystone; `LAB_AUTH_URL` says another. */
export const AUTH_URL = Deno.env.get("LAB_AUTH_URL") ?? "http://172.30.0.1:5000/v3";

export interface Cloud {
  /** A call to Neutron (`/v2.0` is put before the path) or Nova; JSON in and out, undefined for an empty answer. */
  call<T>(
    service: "network" | "compute",
    method: string,
    path: string,
    body?: unknown,
    headers?: HeadersInit,
  ): Promise<T>;
  /** Every object of a collection that matches the query, in Neutron's order. */
  list<K extends keyof Collections>(collection: K, query?: Record<string, string>): Promise<Collections[K][]>;
  get<K extends keyof Collections>(collection: K, id: string): Promise<Collections[K]>;
  create<K extends keyof Collections>(
    collection: K,
    fields: Record<string, unknown>,
  ): Promise<Collections[K]>;
  update<K extends keyof Collections>(
    collection: K,
    id: string,
    fields: Record<string, unknown>,
    headers?: HeadersInit,
  ): Promise<Collections[K]>;
  /** Deletes one object; one that is not there is fine. */
  remove(collection: keyof Collections, id: string): Promise<void>;
  servers(): Promise<Server[]>;
  /** The one server of exactly that name. */
  server(name: string): Promise<Server>;
  attach(server: string, port: string): Promise<void>;
  /** Asks for a detach. It is done when the port's `device_id` is empty, some time later. */
  detach(server: string, port: string): Promise<void>;
}

/**
 * No connection is kept: Deno 2.9 sends a request again, a POST too, when a kept connection is closed without an answer,
 * and a test that cuts connections must know how often it has asked.
 */
const client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });

/** `security-groups` → `security_group`, the key of one object in Neutron's bodies. */
function singular(collection: string): string {
  return collection.replaceAll("-", "_").replace(/s$/, "");
}

/**
 * Signs in and returns the client. The token is renewed once when a call answers 401. Each call has a deadline of 60 s.
 * Throws CloudError for any other answer of 400 or above, TypeError when a service can't be reached.
 */
export async function connect(login: Login, options: { signal?: AbortSignal } = {}): Promise<Cloud> {
  let token = "";
  let endpoints: Record<string, string> = {};

  const send = async (method: string, url: string, body?: unknown, headers?: HeadersInit) => {
    const deadline = AbortSignal.timeout(60_000);
    const response = await fetch(url, {
      client,
      method,
      headers: {
        "Content-Type": "application/json",
        ...(token ? { "X-Auth-Token": token } : {}),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: options.signal ? AbortSignal.any([options.signal, deadline]) : deadline,
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };

  const signIn = async () => {
    token = "";
    const url = `${login.authUrl}/auth/tokens`;
    const domain = { id: "default" };
    const answer = await send("POST", url, {
      auth: {
        identity: {
          methods: ["password"],
          password: { user: { name: login.user, domain, password: login.password } },
        },
        scope: { project: { name: login.project, domain } },
      },
    });
    if (answer.status !== 201) throw new CloudError("POST", url, answer.status, answer.text);
    const catalog: { type: string; endpoints: { interface: string; url: string }[] }[] =
      JSON.parse(answer.text).token.catalog;
    token = answer.headers.get("X-Subject-Token") ?? "";
    endpoints = Object.fromEntries(
      catalog.map((
        service,
      ) => [service.type, service.endpoints.find((e) => e.interface === "public")?.url ?? ""]),
    );
  };
  await signIn();

  const cloud: Cloud = {
    async call(service, method, path, body, headers) {
      const url = () => endpoints[service] + (service === "network" ? "/v2.0" : "") + path;
      let answer = await send(method, url(), body, headers);
      if (answer.status === 401) {
        await signIn();
        answer = await send(method, url(), body, headers);
      }
      if (answer.status >= 400) throw new CloudError(method, url(), answer.status, answer.text);
      return answer.text ? JSON.parse(answer.text) : undefined;
    },
    async list(collection, query = {}) {
      const search = new URLSearchParams(query).toString();
      const path = `/${collection}${search ? `?${search}` : ""}`;
      const answer = await cloud.call<Record<string, never>>("network", "GET", path);
      return answer[collection.replaceAll("-", "_")] ?? [];
    },
    async get(collection, id) {
      const answer = await cloud.call<Record<string, never>>("network", "GET", `/${collection}/${id}`);
      return answer[singular(collection)]!;
    },
    async create(collection, fields) {
      const key = singular(collection);
      const answer = await cloud.call<Record<string, never>>("network", "POST", `/${collection}`, {
        [key]: fields,
      });
      return answer[key]!;
    },
    async update(collection, id, fields, headers) {
      const key = singular(collection);
      const path = `/${collection}/${id}`;
      const answer = await cloud.call<Record<string, never>>(
        "network",
        "PUT",
        path,
        { [key]: fields },
        headers,
      );
      return answer[key]!;
    },
    async remove(collection, id) {
      try {
        await cloud.call("network", "DELETE", `/${collection}/${id}`);
      } catch (error) {
        if (!(error instanceof CloudError && error.status === 404)) throw error;
      }
    },
    async servers() {
      const all = login.project === "admin" ? "?all_tenants=1" : "";
      return (await cloud.call<{ servers: Server[] }>("compute", "GET", `/servers${all}`)).servers;
    },
    async server(name) {
      const found = (await cloud.servers()).filter((server) => server.name === name);
      if (found.length !== 1) {
        throw new RangeError(`Cannot pick the server ${name}: there are ${found.length} of them`);
      }
      return found[0]!;
    },
    async attach(server, port) {
      const body = { interfaceAttachment: { port_id: port } };
      await cloud.call("compute", "POST", `/servers/${server}/os-interface`, body);
    },
    async detach(server, port) {
      await cloud.call("compute", "DELETE", `/servers/${server}/os-interface/${port}`);
    },
  };
  return cloud;
}

/** Signs in with one of the lab's seeded accounts. */
export function connectAs(
  account: keyof typeof ACCOUNTS,
  options: { signal?: AbortSignal } = {},
): Promise<Cloud> {
  return connect({ authUrl: AUTH_URL, ...ACCOUNTS[account] }, options);
}
