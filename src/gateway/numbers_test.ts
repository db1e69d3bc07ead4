import assert from "node:assert/strict";
import fc from "fast-check";
import { reversePorts, spread, tunnelNumbers } from "./numbers.ts";

Deno.test("spread() gives distinct numbers of the range when names are distinct", () => {
  fc.assert(fc.property(fc.uniqueArray(fc.string(), { maxLength: 40 }), (names) => {
    const numbers = spread(names, 100, 40);
    assert.equal(new Set(numbers.values()).size, names.length);
    for (const number of numbers.values()) assert.ok(number >= 100 && number < 140);
  }));
});

Deno.test("spread() does not depend on the order of the names", () => {
  fc.assert(fc.property(fc.uniqueArray(fc.string(), { maxLength: 20 }), (names) => {
    assert.deepEqual(spread([...names].reverse(), 0, 50), spread(names, 0, 50));
  }));
});

Deno.test("tunnelNumbers() keeps a tunnel's number when another is added", () => {
  const before = tunnelNumbers([{ name: "berlin" }]).get("berlin");
  assert.equal(tunnelNumbers([{ name: "aachen" }, { name: "berlin" }]).get("berlin"), before);
});

Deno.test("reversePorts() stays out of the agent's and IKE's ports", () => {
  for (const port of reversePorts([{ name: "a" }, { name: "b" }]).values()) {
    assert.ok(port >= 20_000 && port < 30_000);
  }
});
