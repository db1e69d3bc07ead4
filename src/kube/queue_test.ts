import assert from "node:assert/strict";
import fc from "fast-check";
import { createLog } from "../process/log.ts";
import { manualClock } from "../process/manual_clock.ts";
import { createQueue, type QueueMetrics, type Reconciled } from "./queue.ts";

const middle = () => 0.5;

/** A queue under a manual clock whose `run` was started. */
function started(reconcile: (key: string, signal: AbortSignal) => Promise<Reconciled>, { workers = 1 } = {}) {
  const clock = manualClock();
  const controller = new AbortController();
  const queue = createQueue({ name: "test", clock, random: middle });
  const ended = queue.run({ workers, signal: controller.signal, reconcile });
  return {
    clock,
    queue,
    ended,
    async stop() {
      controller.abort();
      await clock.advance(0);
      return await ended;
    },
    abort: () => controller.abort(),
  };
}

Deno.test("add() takes a key once however often it is added before a worker has it", async () => {
  const seen: string[] = [];
  const clock = manualClock();
  const controller = new AbortController();
  const queue = createQueue({ name: "test", clock });
  for (const key of ["a", "b", "a", "a"]) queue.add(key);
  assert.equal(queue.waiting(), 2);
  const ended = queue.run({
    signal: controller.signal,
    reconcile: (key) => {
      seen.push(key);
      return Promise.resolve();
    },
  });
  await clock.advance(0);
  controller.abort();
  assert.deepEqual(await ended, []);
  assert.deepEqual(seen, ["a", "b"]);
});

Deno.test("add() works on a key again afterwards when it is added while it is worked on, never at once", async () => {
  const gate = Promise.withResolvers<void>();
  let runs = 0;
  const at = started(() => ++runs === 1 ? gate.promise : Promise.resolve(), { workers: 3 });
  at.queue.add("a");
  await at.clock.advance(0);
  at.queue.add("a");
  at.queue.add("a");
  await at.clock.advance(0);
  assert.equal(runs, 1);
  gate.resolve();
  await at.clock.advance(0);
  assert.equal(runs, 2);
  await at.stop();
});

Deno.test("run() retries what threw after 250 ms, doubled up to 5 min, and starts anew after a success", async () => {
  let broken = true;
  const times: number[] = [];
  const at = started(() => {
    times.push(at.clock.now());
    return broken ? Promise.reject(new Error("no")) : Promise.resolve();
  });
  at.queue.add("a");
  await at.clock.advance(1_500_000);
  const delays = times.slice(1).map((time, index) => time - times[index]!);
  assert.deepEqual(delays.slice(0, 4), [250, 500, 1000, 2000]);
  assert.equal(Math.max(...delays), 300_000);
  broken = false;
  await at.clock.advance(300_000);
  assert.equal(at.queue.failures("a"), 0);
  broken = true;
  times.length = 0;
  at.queue.add("a");
  await at.clock.advance(300);
  assert.equal(times[1]! - times[0]!, 250);
  await at.stop();
});

Deno.test("run() logs what threw, with the key, and not what only asked for a retry", async () => {
  const lines: string[] = [];
  const clock = manualClock();
  const controller = new AbortController();
  const queue = createQueue({ name: "test", clock, log: createLog({ write: (line) => lines.push(line) }) });
  const ended = queue.run({
    signal: controller.signal,
    reconcile: (key) => key === "a" ? Promise.reject(new Error("broken")) : Promise.resolve({ retry: true }),
  });
  queue.add("a");
  queue.add("b");
  await clock.advance(0);
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /"key":"a","error":"broken"/);
  assert.deepEqual([queue.failures("a"), queue.failures("b")], [1, 1]);
  controller.abort();
  await ended;
});

Deno.test("run() looks again after a fixed time when told so, with no backoff", async () => {
  const times: number[] = [];
  const at = started(() => {
    times.push(at.clock.now());
    return Promise.resolve({ requeueAfterMs: 60_000 });
  });
  at.queue.add("a");
  await at.clock.advance(180_000);
  assert.deepEqual(times, [0, 60_000, 120_000, 180_000]);
  await at.stop();
});

Deno.test("addAfter() keeps the earliest of several times for one key", async () => {
  const times: number[] = [];
  const at = started(() => {
    times.push(at.clock.now());
    return Promise.resolve();
  });
  at.queue.addAfter("a", 500);
  at.queue.addAfter("a", 100);
  at.queue.addAfter("a", 300);
  await at.clock.advance(1000);
  assert.deepEqual(times, [100]);
  await at.stop();
});

Deno.test("run() lets running work finish on shutdown and takes nothing more", async () => {
  const gate = Promise.withResolvers<void>();
  const seen: string[] = [];
  const at = started((key) => {
    seen.push(key);
    return gate.promise;
  });
  at.queue.add("a");
  at.queue.add("b");
  at.queue.addAfter("c", 10);
  await at.clock.advance(0);
  at.abort();
  at.queue.add("d");
  await at.clock.advance(1000);
  gate.resolve();
  assert.deepEqual(await at.ended, []);
  assert.deepEqual(seen, ["a"]);
  assert.equal(at.clock.pending(), 0);
});

Deno.test("run() aborts work after 8 s of draining and gives it up a second later", async () => {
  let aborted = false;
  const at = started((_key, signal) => {
    signal.addEventListener("abort", () => aborted = true);
    return new Promise(() => {});
  });
  at.queue.add("a");
  await at.clock.advance(0);
  at.abort();
  await at.clock.advance(7_999);
  assert.equal(aborted, false);
  await at.clock.advance(1);
  assert.equal(aborted, true);
  await at.clock.advance(1_000);
  assert.deepEqual(await at.ended, ["a"]);
});

Deno.test("createQueue() tells its metrics", async () => {
  const told: string[] = [];
  const metrics: QueueMetrics = {
    added: () => told.push("added"),
    retried: () => told.push("retried"),
    depth: (keys) => told.push(`depth ${keys}`),
    waited: (seconds) => told.push(`waited ${seconds}`),
    worked: (seconds, result) => told.push(`worked ${seconds} ${result}`),
    running: (ages) => told.push(`running ${ages().length}`),
  };
  const clock = manualClock();
  const controller = new AbortController();
  const queue = createQueue({ name: "test", clock, metrics, random: middle });
  queue.add("a");
  await clock.advance(2000);
  const ended = queue.run({ signal: controller.signal, reconcile: () => Promise.resolve({ retry: true }) });
  await clock.advance(0);
  controller.abort();
  await ended;
  assert.deepEqual(told, [
    "running 0",
    "added",
    "depth 1",
    "depth 0",
    "waited 2",
    "retried",
    "worked 0 requeue",
  ]);
});

type Step = { act: "add" | "after" | "limited" | "advance" | "finish" | "fail"; key: string; ms: number };

const step: fc.Arbitrary<Step> = fc.record({
  act: fc.constantFrom("add", "after", "limited", "advance", "finish", "fail"),
  key: fc.constantFrom("a", "b", "c", "d"),
  ms: fc.integer({ min: 0, max: 1000 }),
});

Deno.test("createQueue() holds client-go's rules for any sequence of calls", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.integer({ min: 1, max: 3 }),
      async (steps, workers) => {
        const running = new Map<string, PromiseWithResolvers<Reconciled>>();
        /** Keys added since their last run began: each must still be run. */
        const owed = new Set<string>();
        // Collected: what is thrown within a reconcile is the queue's to catch.
        const violations: string[] = [];
        const at = started((key) => {
          if (running.has(key)) violations.push(`${key} is worked on twice at the same time`);
          if (running.size >= workers) violations.push("more work than workers");
          owed.delete(key);
          const work = Promise.withResolvers<Reconciled>();
          running.set(key, work);
          return work.promise;
        }, { workers });
        const end = (key: string | undefined, how: (work: PromiseWithResolvers<Reconciled>) => void) => {
          const work = key === undefined ? undefined : running.get(key);
          if (!work || key === undefined) return;
          running.delete(key);
          how(work);
        };
        for (const { act, key, ms } of steps) {
          if (act === "add") owed.add(key);
          if (act === "add") at.queue.add(key);
          else if (act === "after") at.queue.addAfter(key, ms);
          else if (act === "limited") at.queue.addRateLimited(key);
          else if (act === "finish") end(key, (work) => work.resolve());
          else if (act === "fail") end(key, (work) => work.reject(new Error("no")));
          await at.clock.advance(act === "advance" ? ms : 0);
        }
        // Whatever was asked for is done in the end, and nothing more comes after that.
        for (let round = 0; round < 200 && (running.size || owed.size || at.clock.pending()); round++) {
          for (const key of [...running.keys()]) end(key, (work) => work.resolve());
          await at.clock.advance(300_000);
        }
        assert.deepEqual(violations, []);
        assert.deepEqual([...owed], []);
        assert.equal(running.size, 0);
        assert.equal(at.queue.waiting(), 0);
        assert.deepEqual(await at.stop(), []);
      },
    ),
    { numRuns: 200 },
  );
});
