import { type Clock, sleep, systemClock } from "../process/clock.ts";
import { errorText, type Log } from "../process/log.ts";
import type { ViciSession } from "../vici/contract.ts";
import { textOf } from "../vici/message.ts";
import { connectVici } from "../vici/session.ts";
import type { Desired } from "./desired.ts";
import { readDigests, socketIdentity } from "./digests.ts";
import { createCounters, parseXfrmStat, renderMetrics } from "./exporter.ts";
import { HINTS, Life } from "./life.ts";
import { pollSas } from "./poll.ts";
import { type DaemonState, type IkeSa, type TunnelState, unknownTunnels } from "./sa_model.ts";

/** What `startDaemon()` needs. */
export interface DaemonOptions {
  /** charon's VICI socket, e.g. `/run/ipsec/charon.vici`. */
  readonly socketPath: string;
  /** Where the digests of what was loaded are kept, beside the socket (same emptyDir): `/run/ipsec/digests.json`. */
  readonly digestPath: string;
  /**
   * Read anew at each tick: what charon has to hold. A rejection is logged, loads nothing in that tick and
   * leaves the last known tunnels in the state.
   */
  readonly desired: () => Promise<Desired>;
  /** Told after every tick, changed or not: the caller decides what is worth a patch. A rejection is logged only. */
  readonly onState: (state: DaemonState) => Promise<void>;
  /** Told once per daemon life before anything is loaded: links, MTU, fence. A rejection ends this connection; it is tried again. */
  readonly onConnect?: () => Promise<void>;
  /** Its records never hold a key. */
  readonly log: Log;
  /** Default 15,000. */
  readonly tickMs?: number;
  readonly clock?: Clock;
  readonly signal: AbortSignal;
}

/** A running driver of one charon. */
export interface Daemon {
  /** Resolves when the signal has aborted and the connection is closed. Never rejects for a fault of charon. */
  readonly done: Promise<void>;
  /** The last state; before the first tick one without tunnels, not connected. */
  readonly state: DaemonState;
  /** Asks for a tick now: a file or an object changed. Calls in a row make one tick. */
  wake(): void;
  /** The Prometheus exposition (text format 0.0.4) with a fresh reading of the SAs, or the last one where charon is silent. */
  metrics(): Promise<string>;
}

/** Drives one charon until `signal` aborts: connect, push keys, load, poll, watch. */
export function startDaemon(options: DaemonOptions): Daemon {
  const driver = new Driver(options);
  const done = driver.run();
  return {
    done,
    get state() {
      return driver.state;
    },
    wake: () => driver.wake(),
    metrics: () => driver.metrics(),
  };
}

const CALL_TIMEOUT_MS = 10_000;
const SCRAPE_TIMEOUT_MS = 5_000;
/** A daemon that has been silent for so long gets a new connection. */
const SILENCE_MAX_MS = 30_000;
/** Ticks that events ask for are this far apart. */
const TICK_GAP_MS = 200;
const RECONNECT_MIN_MS = 50;
const RECONNECT_MAX_MS = 1_000;

/** `alert` came with 6.0.3; an older charon complains in its log about who asks for it. */
function knowsAlert(version: string | undefined): boolean {
  const [major = 0, minor = 0, patch = 0] = (version ?? "").split(".").map((part) => parseInt(part, 10) || 0);
  return major > 6 || (major === 6 && (minor > 0 || patch >= 3));
}

const isTimeout = (error: unknown): boolean => error instanceof DOMException && error.name === "TimeoutError";

class Driver {
  readonly #options: DaemonOptions;
  readonly #clock: Clock;
  readonly #tickMs: number;
  readonly #causes = new Map<string, string>();
  readonly #counters = createCounters();
  #state: DaemonState;
  #last: Desired = { connections: [], keys: [], keyPrefix: "" };
  /** Why the desired state can't be read, as it was told last. */
  #unreadable: string | undefined;
  #session: ViciSession | undefined;
  #sas: readonly IkeSa[] = [];
  #lives = 0;
  #napping: AbortController | undefined;
  #woken = false;
  #delivering = false;
  #undelivered: DaemonState | undefined;
  #publishedAt = -Infinity;

  constructor(options: DaemonOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#tickMs = options.tickMs ?? 15_000;
    this.#state = { connected: false, life: 0, tunnels: [], at: this.#clock.date().getTime() };
  }

  get state(): DaemonState {
    return this.#state;
  }

  wake(): void {
    this.#woken = true;
    this.#napping?.abort();
  }

  async metrics(): Promise<string> {
    const session = this.#session;
    let sas: readonly IkeSa[] = [];
    if (session !== undefined && !session.ended) {
      try {
        sas = await pollSas(session, { timeoutMs: SCRAPE_TIMEOUT_MS });
      } catch {
        sas = this.#sas; // charon is silent: what was read last
      }
    }
    let xfrm: string | undefined;
    try {
      xfrm = await Deno.readTextFile("/proc/net/xfrm_stat");
    } catch { /* a kernel without XFRM statistics */ }
    return renderMetrics({
      state: this.#state,
      sas,
      counters: this.#counters,
      ...(xfrm === undefined ? {} : { xfrmStat: parseXfrmStat(xfrm) }),
    });
  }

  async run(): Promise<void> {
    const { signal, log } = this.#options;
    const wake = (): void => this.wake();
    signal.addEventListener("abort", wake);
    let pauseMs = RECONNECT_MIN_MS, told: string | undefined;
    while (!signal.aborted) {
      let lived = false;
      try {
        await this.#connect(() => {
          lived = true;
          told = undefined;
        });
      } catch (error) {
        const reason = errorText(error);
        if (signal.aborted) break;
        if (reason !== told) log.warn("No connection to charon", { reason });
        told = reason;
        await this.#readDesired();
        this.#publishUnknown(reason);
      } finally {
        this.#session?.close();
        this.#session = undefined;
        this.#sas = [];
      }
      pauseMs = lived ? RECONNECT_MIN_MS : Math.min(pauseMs * 2, RECONNECT_MAX_MS);
      await this.#nap(pauseMs);
    }
    signal.removeEventListener("abort", wake);
  }

  /** One life of the daemon; rejects with the reason of its end. */
  async #connect(onTick: () => void): Promise<void> {
    const { socketPath, digestPath, signal, log, onConnect } = this.#options;
    const socket = await socketIdentity(socketPath);
    if (socket === undefined) throw new Error(`Cannot reach charon at ${socketPath}: there is no socket`);
    const session = await connectVici({ path: socketPath, signal, timeoutMs: CALL_TIMEOUT_MS });
    this.#session = session;
    const version = textOf(await session.call("version"), "version");
    await onConnect?.();
    // The socket tells one daemon from the next, so a cut connection to the same one costs no SA.
    const digests = await readDigests(digestPath, socket);
    this.#lives++;
    log.info("Connected to charon", { version, life: this.#lives, known: digests.connections.size });
    const life = new Life({
      session,
      socket,
      digestPath,
      digests,
      causes: this.#causes,
      counters: this.#counters,
      tickMs: this.#tickMs,
      clock: this.#clock,
      log,
    });
    const pump = this.#pump(session, life, knowsAlert(version));
    session.closed.then(() => this.wake());
    try {
      let silentSince: number | undefined;
      while (!session.ended) {
        let napMs = this.#tickMs;
        const current = await socketIdentity(socketPath);
        if (current !== undefined && current !== socket) {
          throw new Error("charon has a new socket: it was started again");
        }
        try {
          const desired = await this.#readDesired();
          const { tunnels, sas, recheckMs } = await life.tick(desired, {
            last: this.#last,
            previous: this.#state.tunnels,
          });
          silentSince = undefined;
          onTick();
          this.#sas = sas;
          this.#publish({
            connected: true,
            life: this.#lives,
            tunnels,
            at: this.#clock.date().getTime(),
            ...(version === undefined ? {} : { version }),
          });
          napMs = Math.min(napMs, recheckMs ?? Infinity);
        } catch (error) {
          if (!isTimeout(error) || session.ended) throw error;
          silentSince ??= this.#clock.now();
          this.#publishUnknown("charon does not answer");
          log.warn("charon does not answer", { reason: errorText(error) });
          if (this.#clock.now() - silentSince >= SILENCE_MAX_MS) throw error;
          napMs = Math.min(napMs, RECONNECT_MAX_MS);
        }
        await sleep(TICK_GAP_MS, { clock: this.#clock, signal });
        if (!session.ended) await this.#nap(napMs - TICK_GAP_MS);
      }
      throw await session.closed;
    } finally {
      session.close();
      await pump;
    }
  }

  /** Hands the daemon's events to the life of this connection until it ends. */
  async #pump(session: ViciSession, life: Life, alerts: boolean): Promise<void> {
    const read = async (names: readonly string[]): Promise<void> => {
      try {
        for await (const { name, message } of await session.events(...names)) {
          if (life.event(name, message)) this.wake();
        }
      } catch (error) {
        // Events are hints: without them a tick sees it a little later.
        if (!session.ended) {
          this.#options.log.debug("No events", { names: [...names], reason: errorText(error) });
        }
      }
    };
    await Promise.all([read([...HINTS]), read(alerts ? ["log", "alert"] : ["log"])]);
  }

  async #readDesired(): Promise<Desired | undefined> {
    try {
      this.#last = await this.#options.desired();
      this.#unreadable = undefined;
      return this.#last;
    } catch (error) {
      const reason = errorText(error);
      const level = reason === this.#unreadable ? "debug" : "warn";
      this.#unreadable = reason;
      this.#options.log[level]("Cannot read what charon should have: nothing is changed", { reason });
      return undefined;
    }
  }

  /** Waits until `ms` have passed or somebody wakes us; a wake that came meanwhile counts. */
  async #nap(ms: number): Promise<void> {
    if (!this.#woken && ms > 0) {
      this.#napping = new AbortController();
      await sleep(ms, { clock: this.#clock, signal: this.#napping.signal });
      this.#napping = undefined;
    }
    this.#woken = false;
  }

  /** At once when it is news, else at the pace of the ticks. */
  #publishUnknown(error: string): void {
    const now = this.#clock.now();
    const { version, tunnels: before } = this.#state;
    const tunnels = unknownTunnels(this.#last.connections, before, this.#clock.date().getTime());
    const names = (of: readonly TunnelState[]): string => of.map(({ name }) => name).join();
    const news = this.#state.connected || this.#state.error !== error || names(tunnels) !== names(before);
    if (!news && now - this.#publishedAt < this.#tickMs) return;
    this.#publish({
      connected: false,
      error,
      life: this.#lives,
      tunnels,
      at: this.#clock.date().getTime(),
      ...(version === undefined ? {} : { version }),
    });
  }

  /** Told one at a time, the newest last: a slow API server must not hold up the next tick. */
  #publish(state: DaemonState): void {
    this.#state = state;
    this.#publishedAt = this.#clock.now();
    this.#undelivered = state;
    if (!this.#delivering) void this.#deliver();
  }

  async #deliver(): Promise<void> {
    this.#delivering = true;
    while (this.#undelivered !== undefined) {
      const state = this.#undelivered;
      this.#undelivered = undefined;
      try {
        await this.#options.onState(state);
      } catch (error) {
        this.#options.log.warn("Cannot report the state", { reason: errorText(error) });
      }
    }
    this.#delivering = false;
  }
}
