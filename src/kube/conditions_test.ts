import assert from "node:assert/strict";
import { type Condition, findCondition, formatMicroTime, isTrue, setCondition } from "./conditions.ts";

const T1 = new Date("2026-01-01T00:00:00.123Z");
const T2 = new Date("2026-01-01T00:01:00Z");
const ready = { type: "Ready", status: "False", reason: "Waiting", message: "for a node" } as const;

Deno.test("setCondition() moves lastTransitionTime only when the status changes", () => {
  const first = setCondition([], { ...ready, observedGeneration: 1 }, T1);
  assert.deepEqual(first, [{ ...ready, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z" }]);
  const reason = setCondition(first, { ...ready, reason: "Other", observedGeneration: 2 }, T2);
  assert.equal(reason[0]?.lastTransitionTime, "2026-01-01T00:00:00Z");
  assert.deepEqual([reason[0]?.reason, reason[0]?.observedGeneration], ["Other", 2]);
  const status = setCondition(reason, { ...ready, status: "True" }, T2);
  assert.equal(status[0]?.lastTransitionTime, "2026-01-01T00:01:00Z");
  assert.equal(first[0]?.reason, "Waiting");
});

Deno.test("setCondition() keeps the order and the other conditions", () => {
  const a: Condition = { ...ready, type: "A", lastTransitionTime: "x" };
  const b: Condition = { ...ready, type: "B", lastTransitionTime: "y" };
  assert.deepEqual(setCondition([a, b], { ...ready, type: "A" }, T1).map((each) => each.type), ["A", "B"]);
  assert.deepEqual(setCondition([a, b], { ...ready, type: "C" }, T1).map((each) => each.type), [
    "A",
    "B",
    "C",
  ]);
  assert.equal(setCondition([a, b], { ...ready, type: "C" }, T1)[1], b);
});

Deno.test("setCondition() keeps messages within the API's limit", () => {
  assert.equal(setCondition([], { ...ready, message: "x".repeat(40_000) }, T1)[0]?.message.length, 32_768);
});

Deno.test("isTrue() is false for an absent condition", () => {
  assert.equal(isTrue(undefined, "Ready"), false);
  assert.equal(isTrue(setCondition([], { ...ready, status: "True" }, T1), "Ready"), true);
  assert.equal(findCondition([], "Ready"), undefined);
});

Deno.test("formatMicroTime() has six digits", () => {
  assert.equal(formatMicroTime(T1), "2026-01-01T00:00:00.123000Z");
});
