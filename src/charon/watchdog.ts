import { ViciError, type ViciSession } from "../vici/contract.ts";
import { section } from "../vici/message.ts";
import type { StartAction } from "./desired.ts";
import type { SaState } from "./sa_model.ts";

/** One child as the watchdog sees it. */
export interface WatchedChild {
  readonly tunnel: string;
  readonly child: string;
  readonly state: SaState;
  readonly startAction: StartAction;
  /** Changes with key, configuration and address: a new one ends the backoff. */
  readonly fingerprint: string;
  /** Its old SA was terminated for a new configuration: one DOWN reading is enough. */
  readonly renewed?: boolean;
}

/** What is remembered of a child that is not up. */
export interface Streak {
  /** When the first of the DOWN readings in a row was made; undefined while it reads something else. */
  readonly downAt?: number;
  /** Attempts since it was last up. */
  readonly attempts: number;
  /** No attempt before this. */
  readonly notBefore: number;
  readonly fingerprint: string;
}

/** Children by `<tunnel>/<child>`. */
export type Streaks = ReadonlyMap<string, Streak>;

/** One attempt that is due. */
export interface Attempt {
  readonly tunnel: string;
  readonly child: string;
  /** 1 for the first since it was last up. */
  readonly attempt: number;
}

const BACKOFF_MAX_MS = 60_000;
/** Two readings count as two ticks when they are this far apart: events can make ticks follow each other at once. */
export const READING_GAP_MS = 1_000;

/**
 * Decides which children to initiate. Pure.
 *
 * Only `start` children, and only one that reads DOWN now and at the reading before: charon queues a duplicate
 * CHILD_SA when an initiate meets a CONNECTING IKE_SA, and eager repetition makes it unresponsive. An attempt leaves
 * the child CONNECTING, so at most one is outstanding.
 *
 * @param allowed whether a load has succeeded with this daemon and this tick's key push did not fail, per tunnel
 */
export function decide(
  children: readonly WatchedChild[],
  { streaks, now, tickMs, allowed }: {
    streaks: Streaks;
    /** Monotonic milliseconds. */
    now: number;
    tickMs: number;
    allowed: (tunnel: string) => boolean;
  },
): { attempts: Attempt[]; streaks: Map<string, Streak>; recheckMs?: number } {
  const attempts: Attempt[] = [];
  const next = new Map<string, Streak>();
  let recheckMs: number | undefined;
  const look = (ms: number): void => {
    recheckMs = Math.min(recheckMs ?? ms, ms);
  };
  for (const { tunnel, child, state, startAction, fingerprint, renewed } of children) {
    if (startAction !== "start" || state === "ESTABLISHED" || state === "REKEYING") continue;
    const key = `${tunnel}/${child}`;
    const known = streaks.get(key);
    const before = known?.fingerprint === fingerprint ? known : {
      attempts: 0,
      notBefore: 0,
      fingerprint,
      ...(known?.downAt === undefined ? {} : { downAt: known.downAt }),
    };
    if (state !== "DOWN") {
      next.set(key, { attempts: before.attempts, notBefore: before.notBefore, fingerprint });
      continue;
    }
    const downAt = before.downAt ?? now;
    const confirmed = renewed || now - downAt >= READING_GAP_MS;
    if (!confirmed) look(READING_GAP_MS - (now - downAt));
    if (!confirmed || !allowed(tunnel) || now < before.notBefore) {
      next.set(key, { ...before, downAt });
      continue;
    }
    const attempt = before.attempts + 1;
    attempts.push({ tunnel, child, attempt });
    const backoff = Math.min(tickMs * 2 ** Math.min(attempt - 1, 16), BACKOFF_MAX_MS);
    next.set(key, { downAt, attempts: attempt, notBefore: now + backoff, fingerprint });
  }
  return { attempts, streaks: next, ...(recheckMs === undefined ? {} : { recheckMs }) };
}

/**
 * Asks charon to bring a child up and does not wait for the negotiation. Both names are sent: with the child alone
 * charon takes the first connection that has one of this name. Gives charon's refusal, if any.
 */
export async function initiate(
  session: ViciSession,
  { tunnel, child }: Attempt,
): Promise<string | undefined> {
  try {
    await session.call("initiate", section({ ike: tunnel, child, timeout: "-1" }));
    return undefined;
  } catch (error) {
    if (error instanceof ViciError) return error.errmsg;
    throw error;
  }
}
