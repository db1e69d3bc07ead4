import type { Clock } from "../process/clock.ts";
import type { Log } from "../process/log.ts";
import type { Desired } from "./desired.ts";
import type { DaemonState } from "./sa_model.ts";

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
export declare function startDaemon(options: DaemonOptions): Daemon;
