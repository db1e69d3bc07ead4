import { ViciError, type ViciSession } from "../vici/contract.ts";
import { listOf, section, textOf } from "../vici/message.ts";
import type { DesiredConnection } from "./desired.ts";
import { type ConnectionDigest, sameDigest } from "./digests.ts";
import { pollSas } from "./poll.ts";
import type { IkeSa } from "./sa_model.ts";

/** One connection to load. */
export interface LoadStep {
  readonly connection: DesiredConnection;
  readonly digest: ConnectionDigest;
  /** charon would not see the change: it has to forget the connection first. */
  readonly unloadFirst: boolean;
  /** The IKE_SAs of this name run an old configuration. */
  readonly staleIke: boolean;
  /** The CHILD_SAs of these names do. */
  readonly staleChildren: readonly string[];
  /** Nothing but the peer's addresses has changed. */
  readonly addressesOnly: boolean;
}

/** What has to be done to bring charon's connections to what is desired. */
export interface LoadPlan {
  readonly load: readonly LoadStep[];
  readonly unload: readonly string[];
  /** Connections that are not loaded because their key is missing, with the reason. */
  readonly blocked: ReadonlyMap<string, string>;
}

/** Compares desired and actual. Pure. */
export function planLoad({ connections, digests, known, loaded, failedKeys }: {
  connections: readonly DesiredConnection[];
  /** Of the desired connections. */
  digests: ReadonlyMap<string, ConnectionDigest>;
  /** What this daemon was given. */
  known: ReadonlyMap<string, ConnectionDigest>;
  /** The connections that charon has. */
  loaded: ReadonlySet<string>;
  /** Why a key can't be used. */
  failedKeys: ReadonlyMap<string, string>;
}): LoadPlan {
  const load: LoadStep[] = [];
  const blocked = new Map<string, string>();
  for (const connection of connections) {
    const digest = digests.get(connection.name);
    if (digest === undefined) continue;
    const before = loaded.has(connection.name) ? known.get(connection.name) : undefined;
    if (sameDigest(before, digest)) continue;
    const reason = connection.keyId === undefined ? undefined : failedKeys.get(connection.keyId);
    if (reason !== undefined) {
      blocked.set(connection.name, reason);
      continue;
    }
    const gone = Object.entries(before?.children ?? {}).filter(([name, hash]) =>
      digest.children[name] !== hash
    );
    const hashes = Object.entries(digest.children).filter(([name]) => before?.children[name] === undefined)
      .map(([, hash]) => hash);
    // charon compares children without their names: one that was only renamed would keep its old name.
    const renamed = before !== undefined && gone.some(([, hash]) => hashes.includes(hash));
    const ikeChanged = before !== undefined && before.ike !== digest.ike;
    load.push({
      connection,
      digest,
      unloadFirst: renamed || (ikeChanged && before.core === digest.core),
      staleIke: ikeChanged,
      staleChildren: gone.map(([name]) => name).sort(),
      addressesOnly: ikeChanged && before.unaddressed === digest.unaddressed &&
        sameDigest({ ...before, ike: digest.ike }, digest),
    });
  }
  const wanted = new Set(connections.map((connection) => connection.name));
  return { load, unload: [...loaded].filter((name) => !wanted.has(name)).sort(), blocked };
}

/**
 * Those steps that can wait: the set of the peer's addresses has changed (a name resolves to another set each minute),
 * but its IKE_SA stands at one that is still among them. charon would tear it down; it is loaded once it is gone.
 */
export function postponable(steps: readonly LoadStep[], sas: readonly IkeSa[]): Set<string> {
  return new Set(
    steps.filter(({ addressesOnly, connection }) => {
      const addresses = listOf(connection.message, "remote_addrs");
      return addressesOnly &&
        sas.some((sa) =>
          sa.name === connection.name && (sa.state === "ESTABLISHED" || sa.state === "REKEYING") &&
          addresses.includes(textOf(sa.raw, "remote-host") ?? "")
        );
    }).map(({ connection }) => connection.name),
  );
}

/** SAs that have to go: their ids, with how often we have asked. */
export type Doomed = Map<string, number>;

/** What `applyLoad()` did. */
export interface LoadReport {
  readonly loaded: readonly string[];
  readonly unloaded: readonly string[];
  /** Why a connection could not be loaded or unloaded. */
  readonly failed: ReadonlyMap<string, string>;
  /** Connections whose SAs were made stale: they are initiated anew as soon as they read DOWN. */
  readonly renewed: ReadonlySet<string>;
}

const ikeKey = (id: number): string => `ike:${id}`;
const childKey = (id: number): string => `child:${id}`;

function staleOf(step: LoadStep, sas: readonly IkeSa[]): string[] {
  return sas.flatMap((sa) => [
    ...(step.staleIke && sa.name === step.connection.name ? [ikeKey(sa.id)] : []),
    ...sa.children.filter((child) => step.staleChildren.includes(child.name)).map((child) =>
      childKey(child.id)
    ),
  ]);
}

/**
 * Carries a plan out: one `load-conn` per connection, so that one failure leaves the others alone, then the unloads.
 * `known` and `doomed` are brought up to date; on a failure the digest stays as it was. Rejects only where the
 * session is in trouble.
 */
export async function applyLoad(
  session: ViciSession,
  plan: LoadPlan,
  { known, doomed }: { known: Map<string, ConnectionDigest>; doomed: Doomed },
): Promise<LoadReport> {
  const loaded: string[] = [], unloaded: string[] = [];
  const failed = new Map<string, string>(), renewed = new Set<string>();
  const before = plan.load.some((step) => step.staleIke || step.staleChildren.length > 0)
    ? await pollSas(session)
    : [];
  const attempt = async (name: string, what: () => Promise<void>): Promise<void> => {
    try {
      await what();
    } catch (error) {
      if (error instanceof ViciError) failed.set(name, `charon refuses the configuration: ${error.errmsg}`);
      else if (error instanceof RangeError || error instanceof TypeError) failed.set(name, error.message);
      else throw error;
    }
  };
  for (const step of plan.load) {
    const { name, message } = step.connection;
    await attempt(name, async () => {
      if (step.unloadFirst) await session.call("unload-conn", section({ name }));
      await session.call("load-conn", new Map([[name, message]]));
      known.set(name, step.digest);
      loaded.push(name);
      const stale = staleOf(step, before);
      for (const key of stale) doomed.set(key, 0);
      if (stale.length > 0) renewed.add(name);
    });
  }
  for (const name of plan.unload) {
    await attempt(name, async () => {
      await session.call("unload-conn", section({ name }));
      known.delete(name);
      unloaded.push(name);
    });
  }
  return { loaded, unloaded, failed, renewed };
}

/**
 * SAs of connections that are no longer desired: they outlive an unload. charon is ours alone, so every name that is
 * not desired counts, but for an incoming IKE_SA that has no configuration yet.
 */
export function orphansOf(sas: readonly IkeSa[], desired: ReadonlySet<string>): string[] {
  return sas.filter((sa) => !desired.has(sa.name) && sa.name !== "" && sa.name !== "(unnamed)")
    .map((sa) => ikeKey(sa.id));
}

/** The doomed SAs that are still there; the others are forgotten. Pure but for `doomed`. */
export function remaining(doomed: Doomed, sas: readonly IkeSa[]): string[] {
  const there = new Set(
    sas.flatMap((sa) => [ikeKey(sa.id), ...sa.children.map((child) => childKey(child.id))]),
  );
  for (const key of [...doomed.keys()]) if (!there.has(key)) doomed.delete(key);
  return [...doomed.keys()].sort();
}

/**
 * Terminates the doomed SAs that are there, by id: first politely, at a repetition by force, since a peer that does
 * not answer would keep them for minutes. Nothing waits; whoever polls again sees whether they are gone.
 */
export async function terminateDoomed(
  session: ViciSession,
  doomed: Doomed,
  sas: readonly IkeSa[],
): Promise<string[]> {
  const keys = remaining(doomed, sas);
  for (const key of keys) {
    const asked = doomed.get(key) ?? 0;
    doomed.set(key, asked + 1);
    const [kind, id] = key.split(":");
    try {
      await session.call(
        "terminate",
        section({ [`${kind}-id`]: id, timeout: "-1", force: asked > 0 ? "yes" : undefined }),
      );
    } catch (error) {
      if (!(error instanceof ViciError)) throw error; // gone in between
    }
  }
  return keys;
}

/** The names of the connections that charon has. */
export async function loadedConnections(session: ViciSession): Promise<Set<string>> {
  return new Set(listOf(await session.call("get-conns"), "conns"));
}
