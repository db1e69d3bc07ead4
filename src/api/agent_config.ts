// agent.json: what a gateway's status-agent needs beside swanctl.conf. The controller renders it, the agent reads it;
// with both files and the keys on disk the agent runs without an API server. Checked by hand: a schema library would
// cost the agent more memory than the rest of it.

/** How packets between partner and cluster are treated: translated, or passed as they are. */
export type GatewayMode = "nat" | "routed";

/** The driver asked for; `auto` takes xfrm where the kernel has XFRM interfaces, else libipsec. */
export type DataPlaneChoice = "auto" | "xfrm" | "libipsec";

/** The Neutron port of the gateway, seen as `net1` in the pod. Addresses are bare IPv4, `mtu` in bytes. */
export interface AgentPort {
  readonly fixedIP: string;
  readonly prefixLength: number;
  readonly gatewayIP: string;
  readonly macAddress: string;
  readonly mtu: number;
}

/** A tunnel by its name in swanctl.conf; `pskKey` names its own key file, absent when it uses the shared one. */
export interface AgentTunnel {
  readonly name: string;
  readonly pskKey?: string;
}

/** The whole of agent.json. */
export interface AgentConfig {
  /** Name of the IPsecGateway. */
  readonly gateway: string;
  readonly namespace: string;
  readonly mode: GatewayMode;
  readonly dataPlane: DataPlaneChoice;
  readonly port: AgentPort;
  /** The gateway's service CIDR, as "100.64.0.0/24". */
  readonly serviceCIDR: string;
  /** The gateway's own address in the service CIDR: the source of what the cluster sends to the partner. */
  readonly snatAddress: string;
  /** MTU inside the tunnel, in bytes; worked out from the port's when absent. */
  readonly mtu?: number;
  /** TCP MSS inside the tunnel, in bytes; worked out from the MTU when absent. */
  readonly mss?: number;
  /** The key file (a key of the Secret) that every tunnel without a `pskKey` uses. */
  readonly psk: { readonly key: string };
  readonly tunnels: readonly AgentTunnel[];
}

/** Either the configuration or every problem found, one line each. */
export type ParsedAgentConfig =
  | { readonly config: AgentConfig; readonly problems?: undefined }
  | { readonly config?: undefined; readonly problems: readonly string[] };

type Fields = Readonly<Record<string, unknown>>;

const IPV4 = /^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$/;
const CIDR = /^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}\/(3[0-2]|[12]?\d)$/;
const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i;
/** A file name in a Secret volume (Kubernetes: IsConfigMapKey), never a path. */
const KEY = /^(?!\.\.)[-._a-zA-Z0-9]{1,253}$/;
const NAME = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;

/** Checks one object's fields and collects complaints; reading goes on after a problem, so that all are named at once. */
class Reader {
  constructor(readonly fields: Fields, readonly path: string, readonly problems: string[]) {}

  #complain(field: string, wanted: string, value: unknown): void {
    const shown = value === undefined ? "missing" : JSON.stringify(value);
    this.problems.push(
      `Cannot use agent.json: ${this.path}${field} must be ${wanted}, current value is ${shown}`,
    );
  }

  known(names: readonly string[]): void {
    for (const field of Object.keys(this.fields).sort()) {
      if (!names.includes(field)) {
        this.problems.push(`Cannot use agent.json: ${this.path}${field} is not a known field`);
      }
    }
  }

  text(field: string, wanted: string, pattern: RegExp): string {
    const value = this.fields[field];
    if (typeof value === "string" && pattern.test(value)) return value;
    this.#complain(field, wanted, value);
    return "";
  }

  optionalText(field: string, wanted: string, pattern: RegExp): string | undefined {
    return this.fields[field] === undefined ? undefined : this.text(field, wanted, pattern);
  }

  oneOf<T extends string>(field: string, choices: readonly T[]): T {
    const value = this.fields[field];
    const found = choices.find((choice) => choice === value);
    if (found !== undefined) return found;
    this.#complain(field, `one of ${choices.join(", ")}`, value);
    return choices[0]!;
  }

  number(field: string, low: number, high: number): number {
    const value = this.fields[field];
    if (typeof value === "number" && Number.isInteger(value) && value >= low && value <= high) return value;
    this.#complain(field, `a whole number from ${low} to ${high}`, value);
    return low;
  }

  optionalNumber(field: string, low: number, high: number): number | undefined {
    return this.fields[field] === undefined ? undefined : this.number(field, low, high);
  }

  object(field: string): Reader {
    const value = this.fields[field];
    if (!isFields(value)) this.#complain(field, "an object", value);
    return new Reader(
      isFields(value) ? value : {},
      `${this.path}${field}.`,
      isFields(value) ? this.problems : [],
    );
  }

  objects(field: string): Reader[] {
    const value = this.fields[field];
    if (!Array.isArray(value)) {
      this.#complain(field, "a list", value);
      return [];
    }
    return value.map((item: unknown, index) => {
      const path = `${this.path}${field}[${index}]`;
      if (isFields(item)) return new Reader(item, `${path}.`, this.problems);
      this.problems.push(`Cannot use agent.json: ${path} must be an object`);
      return new Reader({}, `${path}.`, []);
    });
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses agent.json. Never throws: what is wrong comes back as lines, each with the field's path and its value. */
export function parseAgentConfig(text: string): ParsedAgentConfig {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return { problems: [`Cannot use agent.json: it is not JSON (${detail})`] };
  }
  if (!isFields(value)) return { problems: ["Cannot use agent.json: it is not an object"] };
  const problems: string[] = [];
  const top = new Reader(value, "", problems);
  const config = readConfig(top);
  const names = new Set<string>();
  for (const tunnel of config.tunnels) {
    if (names.has(tunnel.name)) {
      problems.push(`Cannot use agent.json: tunnels has ${JSON.stringify(tunnel.name)} more than once`);
    }
    names.add(tunnel.name);
  }
  return problems.length ? { problems } : { config };
}

function readConfig(top: Reader): AgentConfig {
  // deno-fmt-ignore
  top.known(["gateway", "namespace", "mode", "dataPlane", "port", "serviceCIDR", "snatAddress", "mtu", "mss", "psk", "tunnels"]);
  const port = top.object("port");
  port.known(["fixedIP", "prefixLength", "gatewayIP", "macAddress", "mtu"]);
  const psk = top.object("psk");
  psk.known(["key"]);
  const mtu = top.optionalNumber("mtu", 576, 65535);
  const mss = top.optionalNumber("mss", 500, 65495);
  return {
    gateway: top.text("gateway", "an object name", NAME),
    namespace: top.text("namespace", "a namespace name", NAME),
    mode: top.oneOf("mode", ["nat", "routed"]),
    dataPlane: top.oneOf("dataPlane", ["auto", "xfrm", "libipsec"]),
    port: {
      fixedIP: port.text("fixedIP", "an IPv4 address", IPV4),
      prefixLength: port.number("prefixLength", 1, 32),
      gatewayIP: port.text("gatewayIP", "an IPv4 address", IPV4),
      macAddress: port.text("macAddress", "a MAC address", MAC),
      mtu: port.number("mtu", 576, 65535),
    },
    serviceCIDR: top.text("serviceCIDR", "an IPv4 CIDR", CIDR),
    snatAddress: top.text("snatAddress", "an IPv4 address", IPV4),
    ...(mtu === undefined ? {} : { mtu }),
    ...(mss === undefined ? {} : { mss }),
    psk: { key: psk.text("key", "a key of the Secret", KEY) },
    tunnels: top.objects("tunnels").map(readTunnel),
  };
}

function readTunnel(reader: Reader): AgentTunnel {
  reader.known(["name", "pskKey"]);
  const pskKey = reader.optionalText("pskKey", "a key of the Secret", KEY);
  return { name: reader.text("name", "a tunnel name", NAME), ...(pskKey === undefined ? {} : { pskKey }) };
}

/** agent.json's text: two-space JSON in a fixed order with a final newline, so that equal input gives equal bytes. */
export function renderAgentConfig(config: AgentConfig): string {
  const { gateway, namespace, mode, dataPlane, port, serviceCIDR, snatAddress, mtu, mss, psk } = config;
  const { fixedIP, prefixLength, gatewayIP, macAddress } = port;
  const tunnels = config.tunnels.map(({ name, pskKey }) => ({ name, pskKey }))
    .sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  return JSON.stringify(
    {
      gateway,
      namespace,
      mode,
      dataPlane,
      port: { fixedIP, prefixLength, gatewayIP, macAddress, mtu: port.mtu },
      serviceCIDR,
      snatAddress,
      mtu,
      mss,
      psk: { key: psk.key },
      tunnels,
    },
    null,
    2,
  ) + "\n";
}
