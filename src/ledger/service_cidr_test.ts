import assert from "node:assert/strict";
import fc from "fast-check";
import {
  addressAt,
  allocateServiceCidr,
  contains,
  covers,
  ipv4ToNumber,
  numberToIpv4,
  overlap,
  parseCidr,
  poolSize,
} from "./service_cidr.ts";

Deno.test("allocateServiceCidr() gives the lowest free /24 when none is wanted", () => {
  const taken = new Map([["100.64.0.0/24", "a/b"]]);
  assert.deepEqual(allocateServiceCidr(["100.64.0.0/22"], taken), { cidr: "100.64.1.0/24" });
});

Deno.test("allocateServiceCidr() names the pool when it is full", () => {
  const result = allocateServiceCidr(["100.64.0.0/24"], new Map([["100.64.0.0/24", "a/b"]]));
  assert.match(result.problem ?? "", /all 1 \/24s of the service CIDR pool 100\.64\.0\.0\/24 are taken/);
});

Deno.test("allocateServiceCidr() names the holder when the wanted /24 is taken", () => {
  const result = allocateServiceCidr(["100.64.0.0/22"], new Map([["100.64.1.0/24", "a/b"]]), "100.64.1.0/24");
  assert.match(result.problem ?? "", /held by a\/b/);
});

Deno.test("allocateServiceCidr() refuses a wanted /24 outside the pool", () => {
  assert.match(
    allocateServiceCidr(["100.64.0.0/22"], new Map(), "10.0.0.0/24").problem ?? "",
    /is not in the service CIDR pool/,
  );
});

Deno.test("allocateServiceCidr() never gives one /24 twice when asked again and again", () => {
  fc.assert(fc.property(fc.integer({ min: 18, max: 24 }), fc.nat(80), (length, asks) => {
    const pools = [`10.128.0.0/${length}`];
    const taken = new Map<string, string>();
    for (let i = 0; i < asks; i++) {
      const { cidr } = allocateServiceCidr(pools, taken);
      if (cidr === undefined) assert.equal(taken.size, poolSize(pools));
      else {
        assert.ok(!taken.has(cidr) && contains(pools[0]!, addressAt(cidr, 255)));
        taken.set(cidr, String(i));
      }
    }
    assert.equal(taken.size, Math.min(asks, poolSize(pools)));
  }));
});

Deno.test("parseCidr() names the subnet when the address has host bits", () => {
  assert.throws(() => parseCidr("10.0.0.5/24"), /the subnet is 10\.0\.0\.0\/24/);
});

Deno.test("overlap() is so when one CIDR holds the other, either way", () => {
  assert.ok(overlap("10.0.0.0/8", "10.244.1.0/24"));
  assert.ok(overlap("10.244.1.0/24", "10.0.0.0/8"));
  assert.ok(!overlap("10.0.0.0/24", "10.0.1.0/24"));
  assert.ok(covers("0.0.0.0/0", "192.168.0.0/16") && !covers("192.168.0.0/16", "0.0.0.0/0"));
});

Deno.test("numberToIpv4() undoes ipv4ToNumber()", () => {
  fc.assert(fc.property(fc.ipV4(), (address) => assert.equal(numberToIpv4(ipv4ToNumber(address)), address)));
});
