import { listOf, sectionOf, sectionsOf, textOf, type ViciSection } from "../vici/message.ts";
import type { DesiredConnection } from "./desired.ts";

/**
 * What a tunnel, its IKE_SA or a child does right now.
 *
 * REKEYING counts as up. ROUTED is an idle trap and no alarm. UNKNOWN: the daemon does not answer.
 */
export type SaState = "DOWN" | "CONNECTING" | "ESTABLISHED" | "REKEYING" | "ROUTED" | "UNKNOWN";

/** One configured child, as the newest of its CHILD_SAs has it. */
export interface ChildState {
  readonly name: string;
  readonly state: SaState;
  /** Bytes of the newest CHILD_SA, which restart at 0 with each rekey. */
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** CHILD_SAs of this name and these selectors that are installed beyond the one that counts. */
  readonly duplicates: number;
}

/** One configured connection: also one that has no SA at all. */
export interface TunnelState {
  readonly name: string;
  /** The worst of its children; ESTABLISHED only when each of them is up (an idle trap beside them is fine). */
  readonly state: SaState;
  readonly ikeState: SaState;
  readonly children: readonly ChildState[];
  /** Epoch milliseconds of the last change of `state`. */
  readonly since: number;
  /** The peer's address of the newest IKE_SA, also while it connects. */
  readonly peerAddress?: string;
  /** The address of ours that the newest IKE_SA uses. */
  readonly localAddress?: string;
  /**
   * What is wrong, in a network engineer's words. Why it is not up: absent as soon as it is. Why its configuration
   * or key could not be applied: until it could, also while an older SA is up.
   */
  readonly lastError?: string;
}

/** What the agent knows about one charon after a tick. */
export interface DaemonState {
  /** Whether charon answers over VICI. While it does not, every tunnel is UNKNOWN. */
  readonly connected: boolean;
  /** Why not. */
  readonly error?: string;
  /** charon's version, as of the last connection. */
  readonly version?: string;
  /** Counts the daemon lives seen by this process: 1 for the first connection. */
  readonly life: number;
  /** One per desired connection, sorted by name. */
  readonly tunnels: readonly TunnelState[];
  /** Epoch milliseconds of this reading. */
  readonly at: number;
}

/** One CHILD_SA of `list-sas`. */
export interface ChildSa {
  readonly name: string;
  readonly id: number;
  /** charon's word: INSTALLED, REKEYING, … */
  readonly state: string;
  readonly raw: ViciSection;
}

/** One IKE_SA of `list-sas`. The same name can come several times. */
export interface IkeSa {
  readonly name: string;
  readonly id: number;
  readonly state: string;
  readonly children: readonly ChildSa[];
  readonly raw: ViciSection;
}

/** Reads the `list-sa` events of one `list-sas`. */
export function readSas(events: readonly ViciSection[]): IkeSa[] {
  return events.flatMap((event) =>
    sectionsOf(event).map(([name, raw]): IkeSa => ({
      name,
      id: Number(textOf(raw, "uniqueid") ?? 0),
      state: textOf(raw, "state") ?? "",
      raw,
      children: sectionsOf(sectionOf(raw, "child-sas")).map(([key, child]): ChildSa => ({
        name: textOf(child, "name") ?? key,
        id: Number(textOf(child, "uniqueid") ?? 0),
        state: textOf(child, "state") ?? "",
        raw: child,
      })),
    }))
  );
}

const newestFirst = (a: { id: number }, b: { id: number }): number => b.id - a.id;
const CHILD_STATES: readonly (readonly [SaState, readonly string[]])[] = [
  ["ESTABLISHED", ["INSTALLED"]],
  ["REKEYING", ["REKEYING", "REKEYED", "UPDATING"]],
  ["CONNECTING", ["CREATED", "INSTALLING", "RETRYING"]],
  ["ROUTED", ["ROUTED"]],
];
const IKE_STATES: readonly (readonly [SaState, readonly string[]])[] = [
  ["ESTABLISHED", ["ESTABLISHED"]],
  ["REKEYING", ["REKEYING", "REKEYED"]],
  ["CONNECTING", ["CREATED", "CONNECTING"]],
];

function stateOf(states: readonly string[], table: typeof CHILD_STATES): SaState {
  return table.find(([, words]) => states.some((state) => words.includes(state)))?.[0] ?? "DOWN";
}

/** Whether charon is busy creating a CHILD_SA on this IKE_SA: it has no CHILD_SA to show for it until it stands. */
function createsChild(sa: IkeSa): boolean {
  return [...listOf(sa.raw, "tasks-active"), ...listOf(sa.raw, "tasks-queued")].includes("CHILD_CREATE");
}

const selectors = (child: ChildSa): string =>
  JSON.stringify([listOf(child.raw, "local-ts"), listOf(child.raw, "remote-ts")]);

/** The installed CHILD_SAs of one child that a newer one with the same selectors has made superfluous. */
export function duplicatesOf(children: readonly ChildSa[]): ChildSa[] {
  const seen = new Set<string>();
  return children.filter((child) => child.state === "INSTALLED").toSorted(newestFirst).filter((child) => {
    const key = selectors(child);
    if (seen.has(key)) return true;
    seen.add(key);
    return false;
  });
}

/**
 * The CHILD_SAs of one configured child. charon may put them under another tunnel's IKE_SA, so a name that only
 * one tunnel has is looked for under any of them.
 */
export function childSasOf(
  connection: DesiredConnection,
  child: string,
  { sas, connections }: { sas: readonly IkeSa[]; connections: readonly DesiredConnection[] },
): ChildSa[] {
  const unique = connections.every((other) =>
    other.name === connection.name || other.children.every((one) => one.name !== child)
  );
  return sas.filter((sa) => unique || sa.name === connection.name)
    .flatMap((sa) => sa.children.filter((one) => one.name === child)).sort(newestFirst);
}

function worst(children: readonly ChildState[], ike: SaState): SaState {
  const has = (state: SaState): boolean => children.some((child) => child.state === state);
  if (children.length === 0) return ike;
  if (has("DOWN")) return "DOWN";
  if (has("CONNECTING")) return "CONNECTING";
  if (has("REKEYING")) return "REKEYING";
  return has("ESTABLISHED") ? "ESTABLISHED" : "ROUTED";
}

/** What `readTunnels()` judges. */
export interface Reading {
  readonly connections: readonly DesiredConnection[];
  readonly sas: readonly IkeSa[];
  /** Installed traps as `<connection>/<child>`. */
  readonly traps: ReadonlySet<string>;
  readonly previous: readonly TunnelState[];
  /** Epoch milliseconds. */
  readonly now: number;
  /** The words for `lastError` of a tunnel that reads `state`. */
  readonly errorOf: (tunnel: string, state: SaState) => string | undefined;
}

/** Judges every configured tunnel, sorted by name. */
export function readTunnels(reading: Reading): TunnelState[] {
  const { connections, sas, traps } = reading;
  const tunnels = connections.map((connection): TunnelState => {
    const own = sas.filter((sa) => sa.name === connection.name).sort(newestFirst);
    const carriers = sas.filter((sa) =>
      connection.children.some(({ name }) => {
        const ids = childSasOf(connection, name, reading).map((child) => child.id);
        return sa.children.some((child) => ids.includes(child.id));
      })
    );
    const ikeState = stateOf((own.length > 0 ? own : carriers).map((sa) => sa.state), IKE_STATES);
    const busy = own.some((sa) => sa.state === "CREATED" || sa.state === "CONNECTING" || createsChild(sa));
    const children = connection.children.map(({ name }): ChildState => {
      const found = childSasOf(connection, name, reading);
      let state = stateOf(found.map((child) => child.state), CHILD_STATES);
      if (state === "DOWN" && busy) state = "CONNECTING";
      if (state === "DOWN" && traps.has(`${connection.name}/${name}`)) state = "ROUTED";
      const newest = found.find((child) => child.state === "INSTALLED") ?? found[0];
      return {
        name,
        state,
        bytesIn: Number(textOf(newest?.raw, "bytes-in") ?? 0),
        bytesOut: Number(textOf(newest?.raw, "bytes-out") ?? 0),
        duplicates: duplicatesOf(found).length,
      };
    });
    const state = worst(children, ikeState);
    const before = reading.previous.find((tunnel) => tunnel.name === connection.name);
    const newest = own.find((sa) => sa.state === "ESTABLISHED") ?? own[0] ?? carriers[0];
    const address = (key: string): string | undefined => {
      const text = textOf(newest?.raw, key);
      return text === undefined || text.startsWith("%any") ? undefined : text;
    };
    const peerAddress = address("remote-host"), localAddress = address("local-host");
    const lastError = reading.errorOf(connection.name, state);
    return {
      name: connection.name,
      state,
      ikeState,
      children,
      since: before?.state === state ? before.since : reading.now,
      ...(peerAddress === undefined ? {} : { peerAddress }),
      ...(localAddress === undefined ? {} : { localAddress }),
      ...(lastError === undefined ? {} : { lastError }),
    };
  });
  return tunnels.sort((a, b) => a.name < b.name ? -1 : 1);
}

/** The same tunnels while charon is silent. */
export function unknownTunnels(
  connections: readonly DesiredConnection[],
  previous: readonly TunnelState[],
  now: number,
): TunnelState[] {
  return connections.map(({ name, children }): TunnelState => {
    const before = previous.find((tunnel) => tunnel.name === name);
    return {
      name,
      state: "UNKNOWN",
      ikeState: "UNKNOWN",
      children: children.map((child) => ({
        name: child.name,
        state: "UNKNOWN",
        bytesIn: 0,
        bytesOut: 0,
        duplicates: 0,
      })),
      since: before?.state === "UNKNOWN" ? before.since : now,
      ...(before?.peerAddress === undefined ? {} : { peerAddress: before.peerAddress }),
    };
  }).sort((a, b) => a.name < b.name ? -1 : 1);
}
