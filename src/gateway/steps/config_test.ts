import assert from "node:assert/strict";
import type { ExposureSpec } from "../../api/ipsec_gateway.ts";
import { exposureAddresses } from "./config.ts";

const CIDR = "100.64.0.0/24";

function exposure(name: string, fields: Partial<ExposureSpec> = {}): ExposureSpec {
  return { name, port: 443, protocol: "TCP", target: { address: "10.0.0.1", port: 443 }, ...fields };
}

Deno.test("exposureAddresses() gives the lowest free address when none is named", () => {
  const addresses = exposureAddresses(
    [exposure("a"), exposure("b"), exposure("c", { port: 80 })],
    new Map(),
    CIDR,
  );
  assert.deepEqual(Object.fromEntries(addresses), { a: "100.64.0.10", b: "100.64.0.11", c: "100.64.0.10" });
});

Deno.test("exposureAddresses() moves none when another is added before it", () => {
  const before = new Map([["b", "100.64.0.10"]]);
  const addresses = exposureAddresses([exposure("a"), exposure("b")], before, CIDR);
  assert.deepEqual(Object.fromEntries(addresses), { b: "100.64.0.10", a: "100.64.0.11" });
});

Deno.test("exposureAddresses() ignores an old address outside of the service CIDR", () => {
  assert.equal(
    exposureAddresses([exposure("a")], new Map([["a", "10.0.0.9"]]), CIDR).get("a"),
    "100.64.0.10",
  );
});

Deno.test("exposureAddresses() names both exposures when they want the same port of one address", () => {
  const clash = [exposure("a", { ip: "100.64.0.20" }), exposure("b", { ip: "100.64.0.20" })];
  assert.throws(
    () => exposureAddresses(clash, new Map(), CIDR),
    /Exposures a and b both want 100\.64\.0\.20 TCP 443/,
  );
});

Deno.test("exposureAddresses() refuses an address outside of the service CIDR", () => {
  assert.throws(
    () => exposureAddresses([exposure("a", { ip: "10.0.0.9" })], new Map(), CIDR),
    /is not in the service CIDR/,
  );
});
