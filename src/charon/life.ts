import type { Clock } from "../process/clock.ts";
import type { Log } from "../process/log.ts";
import type { ViciSession } from "../vici/contract.ts";
import { sectionsOf, textOf, type ViciSection } from "../vici/message.ts";
import type { Desired, DesiredConnection } from "./desired.ts";
import { type ConnectionDigest, digestConnection, type Digests, writeDigests } from "./digests.ts";
import { causeOfAlert, causeOfLog, countOfLog } from "./errors.ts";
import { type CharonCounters, count } from "./exporter.ts";
import { type KeyReport, type PushedKeys, pushKeys } from "./keys.ts";
import {
  applyLoad,
  type Doomed,
  loadedConnections,
  type LoadStep,
  orphansOf,
  planLoad,
  postponable,
  terminateDoomed,
} from "./load.ts";
import { pollSas, pollTraps } from "./poll.ts";
import {
  childSasOf,
  duplicatesOf,
  type IkeSa,
  readTunnels,
  type SaState,
  type TunnelState,
} from "./sa_model.ts";
import { decide, initiate, READING_GAP_MS, type Streaks } from "./watchdog.ts";

/** Duplicates that are this old are not the two sides of a rekeying. */
const DUPLICATES_MAX_MS = 60_000;

/** The events that ask for a reading. */
export const HINTS = ["child-rekey", "child-updown", "ike-rekey", "ike-update", "ike-updown"] as const;

/** What a life is made of. */
export interface LifeOptions {
  readonly session: ViciSession;
  /** The daemon's socket, see `socketIdentity()`. */
  readonly socket: string;
  readonly digestPath: string;
  /** What this daemon is known to have; empty for a new one. */
  readonly digests: Digests;
  /** Causes of trouble by tunnel; they outlive the daemon. */
  readonly causes: Map<string, string>;
  readonly counters: CharonCounters;
  readonly tickMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** What one tick read. */
export interface TickResult {
  readonly tunnels: readonly TunnelState[];
  readonly sas: readonly IkeSa[];
  /** When to look again, if before the next tick. */
  readonly recheckMs?: number;
}

/** How the last attempt to apply the desired state went. */
interface Applied {
  /** By tunnel, for `lastError`. */
  readonly errors: ReadonlyMap<string, string>;
  /** By key id. */
  readonly keyFailed: ReadonlyMap<string, string>;
  readonly keyChanged: ReadonlySet<string>;
}

/** One life of a daemon, seen through one VICI connection. */
export class Life {
  readonly #options: LifeOptions;
  readonly #pushed: PushedKeys = new Map();
  readonly #known: Map<string, ConnectionDigest>;
  readonly #doomed: Doomed;
  readonly #duplicates = new Map<number, number>();
  readonly #reported = new Map<string, string>();
  readonly #renewed = new Set<string>();
  #applied: Applied = { errors: new Map(), keyFailed: new Map(), keyChanged: new Set() };
  #streaks: Streaks = new Map();
  #postponedBefore: ReadonlySet<string> = new Set();
  /** The doomed SAs that the file knows. */
  #saved: string;

  constructor(options: LifeOptions) {
    this.#options = options;
    this.#known = options.digests.connections;
    this.#doomed = new Map([...options.digests.doomed].map((key) => [key, 0]));
    this.#saved = this.#doomedNow();
  }

  /**
   * One tick: keys, connections, poll, watchdog, in this order. Without `desired` (it could not be read) nothing is
   * changed and `last` is judged. Rejects where the session is in trouble, and only then.
   */
  async tick(
    desired: Desired | undefined,
    { last, previous }: { last: Desired; previous: readonly TunnelState[] },
  ): Promise<TickResult> {
    const { session, clock, log } = this.#options;
    const { connections } = desired ?? last;
    if (desired !== undefined) this.#applied = await this.#apply(desired);
    const { errors, keyFailed, keyChanged } = this.#applied;

    const sas = await pollSas(session);
    let terminated: string[] = [];
    if (desired !== undefined) {
      for (const key of orphansOf(sas, new Set(connections.map(({ name }) => name)))) {
        if (!this.#doomed.has(key)) this.#doomed.set(key, 0);
      }
      this.#findLastingDuplicates(connections, sas);
      terminated = await terminateDoomed(session, this.#doomed, sas);
      if (this.#doomedNow() !== this.#saved) await this.#save();
      if (terminated.length > 0) log.info("Terminated SAs that should not be there", { sas: terminated });
    }
    const traps = connections.some(({ children }) => children.some((child) => child.startAction === "trap"))
      ? await pollTraps(session)
      : new Set<string>();

    // An SA that is about to go says nothing about its tunnel.
    const staying = sas.filter((sa) => !this.#doomed.has(`ike:${sa.id}`)).map((sa) => ({
      ...sa,
      children: sa.children.filter((child) => !this.#doomed.has(`child:${child.id}`)),
    }));
    const tunnels = readTunnels({
      connections,
      sas: staying,
      traps,
      previous,
      now: clock.date().getTime(),
      errorOf: (tunnel, state) => this.#errorOf(tunnel, state, errors),
    });
    this.#logTransitions(previous, tunnels);
    const recheckMs = await this.#watch(connections, tunnels, keyFailed, keyChanged);
    const soon = terminated.length > 0 ? READING_GAP_MS : undefined;
    const recheck = Math.min(recheckMs ?? Infinity, soon ?? Infinity);
    return { tunnels, sas, ...(recheck === Infinity ? {} : { recheckMs: recheck }) };
  }

  /** Takes one event; says whether a reading is due. */
  event(name: string, message: ViciSection): boolean {
    const { causes, counters, log } = this.#options;
    if (name === "log" || name === "alert") {
      const cause = name === "log" ? causeOfLog(message) : causeOfAlert(message);
      const tunnel = textOf(message, "ikesa-name");
      const kind = countOfLog(message);
      if (tunnel !== undefined && kind === "rekey-failure") count(counters.rekeyFailures, tunnel);
      if (tunnel !== undefined && kind === "timeout") count(counters.dpdTimeouts, tunnel);
      if (cause === undefined || causes.get(cause.tunnel) === cause.text) return false;
      causes.set(cause.tunnel, cause.text);
      log.info("Trouble with a tunnel", { tunnel: cause.tunnel, cause: cause.text });
      return true;
    }
    const tunnel = sectionsOf(message)[0]?.[0];
    if ((name === "ike-rekey" || name === "child-rekey") && tunnel !== undefined) {
      count(counters.rekeys, tunnel);
    }
    return true;
  }

  /** Keys, then connections. */
  async #apply(desired: Desired): Promise<Applied> {
    const { session, counters, log, clock } = this.#options;
    const known = this.#known;
    const { connections } = desired;
    const digests = new Map<string, ConnectionDigest>();
    const errors = new Map<string, string>();
    for (const connection of connections) {
      try {
        digests.set(connection.name, await digestConnection(connection));
      } catch (error) {
        // A name or value that can't be sent, see encodeMessage().
        errors.set(connection.name, error instanceof Error ? error.message : String(error));
      }
    }
    const loaded = await loadedConnections(session);
    const context = { connections, digests, known, loaded };
    const ahead = planLoad({ ...context, failedKeys: new Map() }).load;
    const postponed = await this.#postponed(ahead);
    const due = (step: LoadStep): boolean => !postponed.has(step.connection.name);
    const always = new Set(ahead.filter(due).flatMap(({ connection }) => connection.keyId ?? []));
    const keys: KeyReport = await pushKeys(session, {
      keys: desired.keys,
      pushed: this.#pushed,
      prefix: desired.keyPrefix,
      always,
    });
    counters.pskPushes += keys.pushed.size;
    if (keys.pushed.size > 0) log.info("Pushed pre-shared keys", { ids: [...keys.pushed].sort() });
    if (keys.unloaded.length > 0) log.info("Unloaded pre-shared keys", { ids: keys.unloaded });

    const plan = planLoad({ ...context, failedKeys: keys.failed });
    const report = await applyLoad(session, { ...plan, load: plan.load.filter(due) }, {
      known,
      doomed: this.#doomed,
    });
    for (const name of report.renewed) this.#renewed.add(name);
    if (report.loaded.length > 0) log.info("Loaded connections", { connections: report.loaded });
    if (report.unloaded.length > 0) log.info("Unloaded connections", { connections: report.unloaded });
    if (report.loaded.length + report.unloaded.length > 0) await this.#save();
    for (const [name, reason] of [...plan.blocked, ...report.failed]) errors.set(name, reason);
    for (const { name, keyId } of connections) {
      const reason = keyId === undefined ? undefined : keys.failed.get(keyId);
      if (reason !== undefined && !errors.has(name)) errors.set(name, reason);
    }
    if (errors.size === 0) {
      if (report.loaded.length + report.unloaded.length > 0 || counters.configAppliedAt === 0) {
        counters.configAppliedAt = Math.floor(clock.date().getTime() / 1000);
      }
    }
    this.#report(errors);
    return { errors, keyFailed: keys.failed, keyChanged: keys.changed };
  }

  async #postponed(steps: readonly LoadStep[]): Promise<ReadonlySet<string>> {
    const postponed = steps.some((step) => step.addressesOnly)
      ? postponable(steps, await pollSas(this.#options.session))
      : new Set<string>();
    for (const tunnel of postponed) {
      if (!this.#postponedBefore.has(tunnel)) {
        this.#options.log.info("The peer's addresses have changed; they are loaded when its SA is gone", {
          tunnel,
        });
      }
    }
    this.#postponedBefore = postponed;
    return postponed;
  }

  /** Failures are told once, then only at level debug until they change. */
  #report(errors: ReadonlyMap<string, string>): void {
    for (const [tunnel, reason] of errors) {
      const level = this.#reported.get(tunnel) === reason ? "debug" : "warn";
      this.#options.log[level]("Cannot apply a tunnel's configuration", { tunnel, reason });
    }
    this.#reported.clear();
    for (const [tunnel, reason] of errors) this.#reported.set(tunnel, reason);
  }

  #doomedNow(): string {
    return [...this.#doomed.keys()].sort().join();
  }

  async #save(): Promise<void> {
    const { digestPath, socket, log } = this.#options;
    try {
      await writeDigests(digestPath, socket, { connections: this.#known, doomed: this.#doomed.keys() });
      this.#saved = this.#doomedNow();
    } catch (error) {
      log.warn("Cannot keep the digests: a restart of the agent will load everything again", {
        path: digestPath,
        error: error as Error,
      });
    }
  }

  #errorOf(tunnel: string, state: SaState, errors: ReadonlyMap<string, string>): string | undefined {
    const { causes } = this.#options;
    if (state === "ESTABLISHED" || state === "REKEYING") causes.delete(tunnel);
    return errors.get(tunnel) ?? causes.get(tunnel);
  }

  #logTransitions(previous: readonly TunnelState[], tunnels: readonly TunnelState[]): void {
    for (const { name, state, lastError } of tunnels) {
      const before = previous.find((tunnel) => tunnel.name === name)?.state;
      if (before !== state) this.#options.log.info(`Tunnel is ${state}`, { tunnel: name, before, lastError });
    }
  }

  #findLastingDuplicates(connections: readonly DesiredConnection[], sas: readonly IkeSa[]): void {
    const now = this.#options.clock.now();
    const seen = new Set<number>();
    for (const connection of connections) {
      for (const { name } of connection.children) {
        for (const { id } of duplicatesOf(childSasOf(connection, name, { sas, connections }))) {
          seen.add(id);
          const since = this.#duplicates.get(id) ?? now;
          this.#duplicates.set(id, since);
          if (now - since >= DUPLICATES_MAX_MS && !this.#doomed.has(`child:${id}`)) {
            this.#doomed.set(`child:${id}`, 0);
          }
        }
      }
    }
    for (const id of [...this.#duplicates.keys()]) if (!seen.has(id)) this.#duplicates.delete(id);
  }

  async #watch(
    connections: readonly DesiredConnection[],
    tunnels: readonly TunnelState[],
    keyFailed: ReadonlyMap<string, string>,
    keyChanged: ReadonlySet<string>,
  ): Promise<number | undefined> {
    const { session, counters, clock, tickMs, log, causes } = this.#options;
    const known = this.#known;
    const children = connections.flatMap((connection) => {
      const tunnel = tunnels.find(({ name }) => name === connection.name);
      const digest = known.get(connection.name);
      return connection.children.map(({ name, startAction }) => ({
        tunnel: connection.name,
        child: name,
        startAction,
        state: tunnel?.children.find((child) => child.name === name)?.state ?? "UNKNOWN" as const,
        fingerprint: [digest?.ike, digest?.children[name], this.#pushed.get(connection.keyId ?? "")].join(),
        renewed: this.#renewed.has(connection.name),
      }));
    });
    const usable = (name: string): boolean => {
      const keyId = connections.find((connection) => connection.name === name)?.keyId;
      return known.has(name) && (keyId === undefined || !keyFailed.has(keyId));
    };
    const { attempts, streaks, recheckMs } = decide(children, {
      streaks: this.#streaks,
      now: clock.now(),
      tickMs,
      allowed: usable,
    });
    this.#streaks = streaks;
    for (const { name, state } of tunnels) if (state !== "DOWN") this.#renewed.delete(name);
    for (const attempt of attempts) {
      const { tunnel, child } = attempt;
      count(counters.initiations, tunnel);
      this.#renewed.delete(tunnel);
      const refusal = await initiate(session, attempt);
      if (refusal !== undefined) causes.set(tunnel, `charon can't initiate: ${refusal}`);
      const level = attempt.attempt === 1 ? "info" : "debug";
      log[level]("Initiated a child that is down", { tunnel, child, attempt: attempt.attempt, refusal });
    }
    // A changed key ends the wait of a backoff: charon's state shows at the next reading.
    return attempts.length > 0 || keyChanged.size > 0
      ? Math.min(recheckMs ?? READING_GAP_MS, READING_GAP_MS)
      : recheckMs;
  }
}
