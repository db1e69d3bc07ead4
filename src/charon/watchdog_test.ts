import assert from "node:assert/strict";
import type { SaState } from "./sa_model.ts";
import { decide, type Streaks, type WatchedChild } from "./watchdog.ts";

/** A child that is watched over time: each call is one tick. */
function watch(more: Partial<WatchedChild> = {}) {
  let streaks: Streaks = new Map();
  return (
    now: number,
    state: SaState,
    options: { allowed?: boolean; fingerprint?: string; renewed?: boolean } = {},
  ): { attempt: number; recheckMs: number | undefined } => {
    const child: WatchedChild = {
      tunnel: "t",
      child: "c",
      startAction: "start",
      fingerprint: options.fingerprint ?? "f",
      ...more,
      state,
      ...(options.renewed === undefined ? {} : { renewed: options.renewed }),
    };
    const result = decide([child], { streaks, now, tickMs: 15_000, allowed: () => options.allowed ?? true });
    streaks = result.streaks;
    assert(result.attempts.length <= 1);
    return { attempt: result.attempts[0]?.attempt ?? 0, recheckMs: result.recheckMs };
  };
}

Deno.test("decide() initiates at the second DOWN reading and asks for an early one after the first", () => {
  const tick = watch();
  assert.deepEqual(tick(0, "DOWN"), { attempt: 0, recheckMs: 1_000 });
  assert.deepEqual(tick(300, "DOWN"), { attempt: 0, recheckMs: 700 }); // an event's tick, too soon to be another reading
  assert.deepEqual(tick(1_000, "DOWN"), { attempt: 1, recheckMs: undefined });
});

Deno.test("decide() starts anew when the readings are not in a row", () => {
  const tick = watch();
  tick(0, "DOWN");
  assert.equal(tick(15_000, "CONNECTING").attempt, 0);
  assert.equal(tick(30_000, "DOWN").attempt, 0);
  assert.equal(tick(45_000, "UNKNOWN").attempt, 0);
  assert.equal(tick(60_000, "DOWN").attempt, 0);
  assert.equal(tick(75_000, "DOWN").attempt, 1);
});

Deno.test("decide() leaves alone what is not DOWN, and what charon is not asked to start", () => {
  for (const state of ["CONNECTING", "REKEYING", "ESTABLISHED", "ROUTED", "UNKNOWN"] as const) {
    const tick = watch();
    for (let now = 0; now < 100_000; now += 15_000) assert.equal(tick(now, state).attempt, 0);
  }
  for (const startAction of ["trap", "none"] as const) {
    const tick = watch({ startAction });
    for (let now = 0; now < 100_000; now += 15_000) {
      assert.deepEqual(tick(now, "DOWN"), { attempt: 0, recheckMs: undefined });
    }
  }
});

Deno.test("decide() backs off up to 60 s while the peer stays away", () => {
  const tick = watch();
  const attempts: number[] = [];
  for (let now = 0; now <= 300_000; now += 15_000) {
    if (tick(now, "DOWN").attempt > 0) attempts.push(now / 1_000);
  }
  assert.deepEqual(attempts, [15, 30, 60, 120, 180, 240, 300]);
});

Deno.test("decide() ends the backoff when key, configuration or address change, and when it was up", () => {
  const tick = watch();
  for (let now = 0; now <= 120_000; now += 15_000) tick(now, "DOWN");
  assert.equal(tick(135_000, "DOWN").attempt, 0);
  assert.equal(tick(136_000, "DOWN", { fingerprint: "g" }).attempt, 1);
  assert.equal(tick(140_000, "ESTABLISHED", { fingerprint: "g" }).attempt, 0);
  assert.equal(tick(141_000, "DOWN", { fingerprint: "g" }).attempt, 0);
  assert.equal(tick(142_000, "DOWN", { fingerprint: "g" }).attempt, 1);
});

Deno.test("decide() initiates nothing while it is not allowed, and at once when it is again", () => {
  const tick = watch();
  tick(0, "DOWN");
  assert.equal(tick(15_000, "DOWN", { allowed: false }).attempt, 0);
  assert.equal(tick(16_000, "DOWN").attempt, 1);
});

Deno.test("decide() takes one reading where the old SA was terminated for a new configuration", () => {
  assert.equal(watch()(0, "DOWN", { renewed: true }).attempt, 1);
});
