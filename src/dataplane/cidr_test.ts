import assert from "node:assert/strict";
import fc from "fast-check";
import {
  formatAddress,
  holds,
  mergeRanges,
  parseAddress,
  parseRange,
  selectorRange,
  toCidrs,
} from "./cidr.ts";

const address = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const range = fc.tuple(address, address).map(([a, b]) => ({ first: Math.min(a, b), last: Math.max(a, b) }));

Deno.test("parseAddress() gives back what formatAddress() wrote", () => {
  fc.assert(fc.property(address, (value) => assert.equal(parseAddress(formatAddress(value)), value)));
});

Deno.test("parseRange() refuses what is no IPv4 range", () => {
  for (
    const text of [
      "",
      "10.0.0",
      "10.0.0.256",
      "10.0.0.1/33",
      "10.0.0.9-10.0.0.1",
      "::/0",
      "dynamic",
      "1.2.3.4/",
    ]
  ) {
    assert.equal(parseRange(text), undefined, text);
  }
});

Deno.test("selectorRange() reads the subnet when a protocol and port follow", () => {
  assert.deepEqual(selectorRange("10.1.2.3/24[tcp/80]"), parseRange("10.1.2.0/24"));
  assert.deepEqual(selectorRange("10.1.2.3"), parseRange("10.1.2.3/32"));
  assert.equal(selectorRange("dynamic"), undefined);
});

Deno.test("toCidrs() covers exactly the addresses of its ranges", () => {
  fc.assert(fc.property(fc.array(range, { maxLength: 5 }), (ranges) => {
    const back = mergeRanges(toCidrs(ranges).map((cidr) => parseRange(cidr)!));
    assert.deepEqual(back, mergeRanges(ranges));
  }));
  assert.deepEqual(toCidrs([parseRange("0.0.0.0/0")!]), ["0.0.0.0/0"]);
  assert.deepEqual(toCidrs([parseRange("10.0.0.0/25")!, parseRange("10.0.0.128/25")!]), ["10.0.0.0/24"]);
});

Deno.test("holds() is true at both ends of the range and not beyond", () => {
  const subnet = parseRange("10.0.0.0/24")!;
  assert.deepEqual(
    ["9.255.255.255", "10.0.0.0", "10.0.0.255", "10.0.1.0"].map((text) => holds(subnet, text)),
    [
      false,
      true,
      true,
      false,
    ],
  );
});
