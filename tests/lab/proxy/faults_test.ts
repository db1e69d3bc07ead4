import assert from "node:assert/strict";
import { callName, Faults, parseRules, type Rule } from "./faults.ts";

const call = { method: "POST", path: "/network/v2.0/ports", body: '{"port": {"name": "gw"}}' };

function rule(fields: Partial<Rule> = {}): Rule {
  return { id: "r", match: { path: "^/network/" }, action: { kind: "cut-before" }, ...fields };
}

Deno.test("Faults.choose() skips, hits and is spent by count", () => {
  const faults = new Faults();
  faults.replace([rule({ skip: 1, times: 2 })]);
  assert.deepEqual([1, 2, 3, 4].map(() => faults.choose(call)?.id), [undefined, "r", "r", undefined]);
  assert.deepEqual(faults.state().map(({ matched, hits }) => ({ matched, hits })), [{ matched: 4, hits: 2 }]);
});

Deno.test("Faults.choose() matches method, path and body, and falls through to the next rule", () => {
  const faults = new Faults();
  faults.replace([
    rule({ id: "method", match: { method: "GET", path: "." } }),
    rule({ id: "body", match: { path: ".", body: "other" } }),
    rule({ id: "spent", times: 0 }),
    rule({ id: "hit", match: { method: "post", path: "ports$", body: '"name": "gw"' } }),
  ]);
  assert.equal(faults.choose(call)?.id, "hit");
});

Deno.test("parseRules() names the rule and what is wrong with it", () => {
  const cases: [unknown, RegExp][] = [
    [{}, /no list/],
    [[{}], /rule 0: id is missing/],
    [[rule(), rule()], /rule r: its id is there twice/],
    [[{ ...rule(), match: {} }], /rule r: match\.path is missing/],
    [[{ ...rule(), match: { path: "(" } }], /rule r: Invalid regular expression/],
    [[{ ...rule(), action: { kind: "explode" } }], /rule r: action\.kind is explode/],
    [[{ ...rule(), action: { kind: "status" } }], /rule r: action\.code is missing/],
    [[{ ...rule(), action: { kind: "delay" } }], /rule r: action\.ms is missing/],
  ];
  for (const [value, message] of cases) {
    assert.throws(() => parseRules(value), { name: "TypeError", message });
  }
  assert.equal(parseRules([rule()]).length, 1);
});

Deno.test("callName() leaves ids and the query out", () => {
  const id = "01234567-89ab-cdef-0123-456789abcdef";
  assert.equal(callName("GET", `/network/v2.0/ports/${id}/tags?x=1`), "GET /network/v2.0/ports/{id}/tags");
});
