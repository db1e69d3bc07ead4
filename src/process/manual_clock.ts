import type { Clock } from "./clock.ts";

/** A clock for tests: it stands still until somebody advances it. */
export interface ManualClock extends Clock {
  /** Moves on by `ms`; timers that come due fire in order, promises settle between them. */
  advance(ms: number): Promise<void>;
  /** Timers set and neither fired nor cancelled. */
  pending(): number;
}

/** A {@linkcode ManualClock} that starts at 0 ms, and at `start` for the wall clock. */
export function manualClock(start: Date = new Date("2026-01-01T00:00:00Z")): ManualClock {
  let elapsed = 0;
  let next = 0;
  const timers = new Map<number, { at: number; fire: () => void }>();

  const settle = async () => {
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  };
  return {
    now: () => elapsed,
    date: () => new Date(start.getTime() + elapsed),
    setTimer(ms, fire) {
      const id = next++;
      timers.set(id, { at: elapsed + Math.max(0, ms), fire });
      return () => timers.delete(id);
    },
    async advance(ms) {
      const until = elapsed + ms;
      await settle();
      for (;;) {
        const due = [...timers].filter(([, timer]) => timer.at <= until)
          .sort(([a, x], [b, y]) => x.at - y.at || a - b)[0];
        if (!due) break;
        timers.delete(due[0]);
        elapsed = due[1].at;
        due[1].fire();
        await settle();
      }
      elapsed = until;
      await settle();
    },
    pending: () => timers.size,
  };
}
