// Desired against actual: only differences are written, in an order in which nothing leaves in clear on the way.
import { type Exec, runOrThrow } from "./exec.ts";
import {
  type KernelRoute,
  type KernelRule,
  type KernelState,
  parseKernel,
  PROTOCOL,
  queryKernel,
} from "./kernel.ts";
import { MAIN_TABLE, type Plan, type PlannedRoute, type PlannedRule } from "./plan.ts";

/** The difference as lines for `ip -batch`, and what could not be planned because a device is missing. */
export interface Difference {
  readonly lines: readonly string[];
  /** Devices that the plan needs and the kernel has not, sorted. */
  readonly missing: readonly string[];
}

const tableName = (table: number) => table === MAIN_TABLE ? "main" : String(table);

function ruleKey(rule: KernelRule | PlannedRule): string {
  const table = typeof rule.table === "number" ? tableName(rule.table) : rule.table;
  return `priority ${rule.priority} from ${rule.from ?? "all"}${
    rule.to ? ` to ${rule.to}` : ""
  } table ${table}`;
}

function routeKey(route: KernelRoute | PlannedRoute): string {
  const table = typeof route.table === "number" ? tableName(route.table) : route.table;
  return [
    route.type,
    route.to,
    ...(route.via === undefined ? [] : ["via", route.via]),
    // An unreachable IPv6 route would name lo; ours are IPv4 and name nothing.
    ...(route.device === undefined ? [] : ["dev", route.device]),
    ...(route.via === undefined && route.device !== undefined ? ["scope", "link"] : []),
    "table",
    table,
    ...(route.metric === undefined ? [] : ["metric", String(route.metric)]),
  ].join(" ");
}

/**
 * What to write so that the kernel is as planned. Pure. Routes that end the way (unreachable) come first, the rules that
 * lead to a table last; stale ones go only after that. A line whose device is missing is left out and the device named.
 */
export function differenceOf(plan: Plan, kernel: KernelState): Difference {
  const lines: string[] = [];
  const wantedLinks = new Map(plan.links.map((link) => [link.name, link]));
  const links = new Map(kernel.links.map((link) => [link.name, link]));
  const gone = new Set<string>();
  const removals: string[] = [];
  for (const link of kernel.links) {
    const wanted = wantedLinks.get(link.name);
    if (link.ifId === undefined || !/^ipsec\d+$/.test(link.name)) continue;
    if (wanted?.ifId === link.ifId) continue;
    // One with another if_id has to make room before the right one is made; its routes go with it.
    (wanted ? lines : removals).push(`link delete ${link.name}`);
    gone.add(link.name);
    links.delete(link.name);
  }
  const actualRoutes = new Set(kernel.routes.filter((route) => !gone.has(route.device ?? "")).map(routeKey));
  const wantedRoutes = new Map(plan.routes.map((route) => [routeKey(route), route]));
  for (const [key, route] of wantedRoutes) {
    if (route.type === "unreachable" && !actualRoutes.has(key)) lines.push(addRoute(key));
  }
  for (const link of plan.links) {
    const actual = links.get(link.name);
    if (!actual) lines.push(`link add ${link.name} type xfrm dev lo if_id ${link.ifId}`);
    if (actual?.mtu !== link.mtu || !actual.up) lines.push(`link set ${link.name} mtu ${link.mtu} up`);
    // Taking a link down takes its routes: when it is not up there are none, and when it is, what is missing is added.
  }
  const present = new Set([...links.keys(), ...wantedLinks.keys()]);
  const missing = new Set<string>();
  for (const { device, mtu } of plan.mtus) {
    const actual = links.get(device);
    if (actual && actual.mtu !== mtu) lines.push(`link set ${device} mtu ${mtu}`);
  }
  const addresses = new Set(kernel.addresses);
  for (const { device, address } of plan.addresses) {
    if (!present.has(device)) missing.add(device);
    else if (!addresses.has(`${device} ${address}`)) lines.push(`address add ${address} dev ${device}`);
  }
  for (const [key, route] of wantedRoutes) {
    if (route.type === "unreachable" || actualRoutes.has(key)) continue;
    if (route.device !== undefined && !present.has(route.device)) missing.add(route.device);
    else lines.push(addRoute(key));
  }
  const actualRules = new Set(kernel.rules.map(ruleKey));
  const wantedRules = new Set(plan.rules.map(ruleKey));
  for (const key of wantedRules) {
    if (!actualRules.has(key)) lines.push(`rule add ${key} protocol ${PROTOCOL}`);
  }
  for (const key of actualRules) if (!wantedRules.has(key)) lines.push(`rule delete ${key}`);
  for (const key of actualRoutes) if (!wantedRoutes.has(key)) lines.push(`route delete ${key}`);
  // Addresses on lo beside 127.0.0.0/8 are ours alone in a pod.
  const ownAddresses = new Set(plan.addresses.map(({ device, address }) => `${device} ${address}`));
  for (const entry of addresses) {
    if (!entry.startsWith("lo ") || ownAddresses.has(entry)) continue;
    lines.push(`address delete ${entry.slice(3)} dev lo`);
  }
  return { lines: [...lines, ...removals], missing: [...missing].sort() };
}

function addRoute(key: string): string {
  return `route replace ${key} proto ${PROTOCOL}`;
}

/** What one round did. */
export interface Applied extends Difference {
  /** The kernel as it was before: for what the caller reports (is the uplink there?). */
  readonly before: KernelState;
}

/** Makes the kernel as planned; keeps what it saw last, so that an unchanged kernel costs one `ip` and no thought. */
export interface Applier {
  /**
   * One round; writes nothing when all is as planned already.
   *
   * @throws Error `ip` can't be run, or refuses a line: what came before it stands, the next round goes on.
   */
  apply(plan: Plan): Promise<Applied>;
}

/** An applier that has seen nothing yet. Rounds must not overlap. */
export function createApplier(exec: Exec): Applier {
  let settled: { readonly plan: Plan; readonly text: string; readonly applied: Applied } | undefined;
  return {
    async apply(plan) {
      const text = await queryKernel(exec);
      if (settled?.plan === plan && settled.text === text) return settled.applied;
      const before = parseKernel(text);
      const applied = { ...differenceOf(plan, before), before };
      await write(applied.lines, exec);
      settled = applied.lines.length ? undefined : { plan, text, applied };
      return applied;
    },
  };
}

async function write(lines: readonly string[], exec: Exec): Promise<void> {
  if (lines.length === 0) return;
  try {
    await runOrThrow(exec, ["ip", "-batch", "-"], { stdin: lines.join("\n") + "\n" });
  } catch (cause) {
    const detail = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`Cannot write links and routes: ${detail}; the lines were: ${lines.join("; ")}`, {
      cause,
    });
  }
}
