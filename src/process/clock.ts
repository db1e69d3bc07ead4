/**
 * Time as a dependency: what waits or measures takes a `Clock`, so that its tests turn the hands themselves
 * instead of sleeping.
 */
export interface Clock {
  /** Milliseconds of a monotonic clock; only differences mean something. */
  now(): number;
  /** The wall clock, for timestamps that others read. */
  date(): Date;
  /** Calls `fire` once after `ms`; the returned function cancels it and may be called at any time. */
  setTimer(ms: number, fire: () => void): () => void;
}

/** setTimeout takes 2^31-1 ms; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The machine's clocks. `performance.now()` is monotonic: a step of the wall clock ends no lease. */
export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  setTimer: (ms, fire) => {
    const id = setTimeout(fire, Math.min(Math.max(0, ms), MAX_TIMER_MS));
    return () => clearTimeout(id);
  },
};

/**
 * Resolves after `ms`, or as soon as `signal` aborts: true when the time went by, false when it was cut short.
 * It never rejects, so that a loop reads `if (!await sleep(...)) return`.
 */
export function sleep(
  ms: number,
  { signal, clock = systemClock }: { signal?: AbortSignal | undefined; clock?: Clock | undefined } = {},
): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve(false);
    const onAbort = () => {
      cancel();
      resolve(false);
    };
    const cancel = clock.setTimer(ms, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve(true);
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** `ms` spread evenly over plus or minus `spread` (a part, 0.2 = 20 %), so that many clients don't march in step. */
export function jitter(
  ms: number,
  { spread = 0.2, random = Math.random }: { spread?: number; random?: () => number } = {},
): number {
  return ms * (1 - spread + 2 * spread * random());
}
