import assert from "node:assert/strict";
import { jitter, sleep } from "./clock.ts";
import { eventually } from "./eventually.ts";
import { manualClock } from "./manual_clock.ts";
import { watchShutdown } from "./shutdown.ts";

function watched() {
  const codes: number[] = [];
  const clock = manualClock();
  // A signal that means nothing to the test runner.
  const shutdown = watchShutdown({ clock, exit: (code) => codes.push(code), signals: ["SIGUSR2"] });
  return { clock, codes, shutdown, [Symbol.dispose]: () => shutdown[Symbol.dispose]() };
}

Deno.test("watchShutdown() aborts at the first signal and exits at the second", async () => {
  using at = watched();
  Deno.kill(Deno.pid, "SIGUSR2");
  await eventually("the abort", () => at.shutdown.signal.aborted);
  assert.match(String(at.shutdown.signal.reason), /Shutting down: SIGUSR2/);
  assert.deepEqual(at.codes, []);
  Deno.kill(Deno.pid, "SIGUSR2");
  await eventually("the exit", () => at.codes.length === 1);
  assert.deepEqual(at.codes, [1]);
});

Deno.test("watchShutdown() exits when the work does not end within 10 s", async () => {
  using at = watched();
  at.shutdown.begin("the lease was lost");
  at.shutdown.begin("again");
  await at.clock.advance(9_999);
  assert.deepEqual(at.codes, []);
  await at.clock.advance(1);
  assert.deepEqual(at.codes, [1]);
});

Deno.test("watchShutdown() leaves nothing behind when disposed", () => {
  const { clock, shutdown } = watched();
  shutdown.begin("done");
  shutdown[Symbol.dispose]();
  assert.equal(clock.pending(), 0);
});

Deno.test("sleep() says whether the time went by", async () => {
  const clock = manualClock();
  const controller = new AbortController();
  const whole = sleep(100, { clock });
  const cut = sleep(100, { clock, signal: controller.signal });
  controller.abort();
  await clock.advance(100);
  assert.deepEqual([await whole, await cut, await sleep(5, { clock, signal: controller.signal })], [
    true,
    false,
    false,
  ]);
  assert.equal(clock.pending(), 0);
});

Deno.test("jitter() spreads evenly around its middle", () => {
  assert.deepEqual([0, 0.5, 1].map((random) => jitter(100, { spread: 0.5, random: () => random })), [
    50,
    100,
    150,
  ]);
});
