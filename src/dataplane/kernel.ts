// What the kernel has, read through `ip -json`; only what is ours to change is kept.
import { type Exec, runOrThrow } from "./exec.ts";

/** Marks rules and routes as ours (rtm_protocol, rule protocol): others' stay untouched. */
export const PROTOCOL = 117;

/** A device. `ifId` only for XFRM interfaces. */
export interface KernelLink {
  readonly name: string;
  readonly mtu: number;
  readonly up: boolean;
  readonly ifId?: number;
  readonly mac?: string;
}

/** The part of the kernel's state that a plan speaks of. Rules and routes: ours only. */
export interface KernelState {
  readonly links: readonly KernelLink[];
  /** Global IPv4 addresses, as "device address/length". */
  readonly addresses: readonly string[];
  readonly rules: readonly KernelRule[];
  readonly routes: readonly KernelRoute[];
}

/** A rule as `ip` prints it. */
export interface KernelRule {
  readonly priority: number;
  readonly table: string;
  readonly from?: string;
  readonly to?: string;
}

/** A route as `ip` prints it; table "main" or a number. */
export interface KernelRoute {
  readonly type: string;
  readonly table: string;
  readonly to: string;
  readonly device?: string;
  readonly via?: string;
  readonly metric?: number;
}

type Json = Readonly<Record<string, unknown>>;

const QUERIES = `link show\naddress show\nrule show\nroute show table all proto ${PROTOCOL}\n`;

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : undefined;
}

function record(value: unknown): Json {
  return typeof value === "object" && value !== null ? value as Json : {};
}

function list(value: unknown): Json[] {
  return Array.isArray(value) ? value.map(record) : [];
}

/** "0x2a" or "42" as a number. */
function number(value: unknown): number | undefined {
  const result = Number(text(value) ?? NaN);
  return Number.isFinite(result) ? result : undefined;
}

function subnet(address: unknown, length: unknown): string | undefined {
  const base = text(address);
  if (base === undefined || base === "all") return undefined;
  const bits = number(length) ?? 32;
  return bits === 32 ? base : `${base}/${bits}`;
}

/**
 * What {@linkcode parseKernel} reads, by one `ip` process. Equal texts mean an equal state: it holds no counters.
 *
 * @throws Error when `ip` fails.
 */
export async function queryKernel(exec: Exec): Promise<string> {
  return await runOrThrow(exec, ["ip", "-json", "-details", "-batch", "-"], { stdin: QUERIES });
}

/**
 * The state in the output of the four queries (iproute2 6.1 and later: one JSON array a command). Throws Error when
 * there are not four arrays.
 */
export function parseKernel(output: string): KernelState {
  const answers = output.split("\n").filter((line) => line.startsWith("[")).map((line) =>
    list(JSON.parse(line))
  );
  const [links, addresses, rules, routes] = answers;
  if (!links || !addresses || !rules || !routes) {
    throw new Error(`Cannot read the kernel's state: ip gave ${answers.length} answers to 4 questions`);
  }
  return {
    links: links.map(linkOf),
    addresses: addresses.flatMap((link) =>
      list(link.addr_info).filter((info) => info.family === "inet" && info.scope !== "host")
        .map((info) => `${text(link.ifname)} ${text(info.local)}/${text(info.prefixlen)}`)
    ).sort(),
    rules: rules.filter((rule) => text(rule.protocol) === String(PROTOCOL)).map(ruleOf),
    routes: routes.map(routeOf),
  };
}

function linkOf(link: Json): KernelLink {
  const info = record(link.linkinfo);
  const ifId = info.info_kind === "xfrm" ? number(record(info.info_data).if_id) : undefined;
  const mac = text(link.address);
  return {
    name: text(link.ifname) ?? "",
    mtu: number(link.mtu) ?? 0,
    up: Array.isArray(link.flags) && link.flags.includes("UP"),
    ...(ifId === undefined ? {} : { ifId }),
    ...(mac === undefined ? {} : { mac }),
  };
}

function ruleOf(rule: Json): KernelRule {
  const from = subnet(rule.src, rule.srclen);
  const to = subnet(rule.dst, rule.dstlen);
  return {
    priority: number(rule.priority) ?? 0,
    table: text(rule.table) ?? "",
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  };
}

function routeOf(route: Json): KernelRoute {
  const device = text(route.dev);
  const via = text(route.gateway);
  const metric = number(route.metric);
  return {
    type: text(route.type) ?? "unicast",
    table: text(route.table) ?? "main",
    to: text(route.dst) ?? "default",
    ...(device === undefined ? {} : { device }),
    ...(via === undefined ? {} : { via }),
    ...(metric === undefined ? {} : { metric }),
  };
}
