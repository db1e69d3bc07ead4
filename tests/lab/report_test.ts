import assert from "node:assert/strict";
import { type Case, parseJunit, parseNotRunList, render, summarise } from "./report.ts";

const XML = `<testsuites name="deno test" tests="3">
  <testsuite name="./a_test.ts" tests="3">
    <testcase name="f() does &lt;x&gt; &amp; y" classname="./a_test.ts" time="1.25" line="1">
    </testcase>
    <testcase name="g" classname="./a_test.ts" time="0.002" line="2">
      <failure message="Uncaught Error: bad
second line">Error: bad</failure>
    </testcase>
    <testcase name="h" classname="./a_test.ts" line="3">
      <skipped/>
    </testcase>
  </testsuite>
</testsuites>`;

function passing(name: string, seconds = 1): Case {
  return { suite: "a", name, seconds, outcome: "passed", message: "" };
}

Deno.test("parseJunit() reads names, times and outcomes", () => {
  assert.deepEqual(parseJunit("a", XML), [
    { suite: "a", name: "f() does <x> & y", seconds: 1.25, outcome: "passed", message: "" },
    { suite: "a", name: "g", seconds: 0.002, outcome: "failed", message: "Uncaught Error: bad" },
    { suite: "a", name: "h", seconds: 0, outcome: "skipped", message: "" },
  ]);
});

Deno.test("summarise() fails when a test was left out that is not on the list", () => {
  const cases = parseJunit("a", XML).filter((one) => one.outcome !== "failed");
  const parts = [{ suite: "a", code: 0 }];
  const without = summarise(parts, { cases, list: new Map() });
  assert.equal(without.failed, 1);
  const list = parseNotRunList("# comment\n\na: h (no such kernel)\n");
  const report = summarise(parts, { cases, list });
  assert.equal(report.failed, 0);
  assert.deepEqual(render(report).split("\n").slice(-2), [
    "not run: a: h (no such kernel)",
    "1 passed, 0 failed",
  ]);
});

Deno.test("summarise() fails when a suite crashed, a part of the set-up failed, or nothing ran", () => {
  const list = new Map<string, string>();
  const crashed = summarise([{ suite: "a", code: 124, log: "/log" }], { cases: [passing("x")], list });
  assert.deepEqual(crashed.failures, ["a: ended with exit code 124, see /log"]);
  const part = summarise([{ suite: "set-up", name: "lab", code: 1 }], { cases: [passing("x")], list });
  assert.deepEqual(part.failures, ["set-up: lab: exit code 1"]);
  assert.deepEqual(summarise([], { cases: [], list }).failures, ["no test was run"]);
});

Deno.test("summarise() does not call tests left out when their suite failed before them", () => {
  const cases: Case[] = [{ ...passing("x"), outcome: "skipped" }];
  const report = summarise([{ suite: "a", code: 1 }], { cases, list: new Map() });
  assert.deepEqual([report.failed, report.notRun.length], [1, 0]);
});

Deno.test("summarise() counts a test that failed by its step once", () => {
  const cases: Case[] = ["t", "t > step", "u"].map((name) => ({ ...passing(name), outcome: "failed" }));
  const { failures } = summarise([{ suite: "a", code: 1 }], { cases, list: new Map() });
  assert.deepEqual(failures, ["a: t > step: ", "a: u: "]);
});

Deno.test("summarise() names the ten slowest tests, without their steps", () => {
  const cases = Array.from({ length: 12 }, (_, i) => passing(`t${i}`, i)).concat(passing("t1 > step", 99));
  const { slowest } = summarise([{ suite: "a", code: 0 }], { cases, list: new Map() });
  assert.deepEqual(slowest.map((one) => one.name), [
    "t11",
    "t10",
    "t9",
    "t8",
    "t7",
    "t6",
    "t5",
    "t4",
    "t3",
    "t2",
  ]);
});

Deno.test("parseNotRunList() names the line it can't read", () => {
  assert.throws(() => parseNotRunList("a: no reason"), /a: no reason/);
});
