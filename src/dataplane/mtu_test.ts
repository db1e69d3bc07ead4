import assert from "node:assert/strict";
import fc from "fast-check";
import { mssOf, outerBytes, tunnelMtu } from "./mtu.ts";

Deno.test("tunnelMtu() is 1386 for AES-GCM over a transport of 1450", () => {
  assert.equal(tunnelMtu(1450, ["aes256gcm16-ecp256"]), 1386);
  assert.equal(mssOf(1386), 1346);
});

Deno.test("tunnelMtu() is 1374 for AES-CBC with SHA-256 over a transport of 1450", () => {
  assert.equal(tunnelMtu(1450, ["aes256-sha256-modp2048"]), 1374);
});

Deno.test("tunnelMtu() takes the least favourable when a proposal is not known", () => {
  assert.equal(tunnelMtu(1450, ["aes256gcm16", "serpent256-whirlpool"]), tunnelMtu(1450, ["aes256-sha512"]));
  assert.equal(tunnelMtu(1450, []), tunnelMtu(1450, ["default"]));
});

Deno.test("tunnelMtu() is the largest size whose ESP packet fits the transport", () => {
  const proposal = fc.constantFrom(
    "aes128gcm16",
    "aes256gcm128",
    "aes256gcm8",
    "chacha20poly1305",
    "aes256-sha256",
    "default",
  );
  fc.assert(fc.property(proposal, fc.integer({ min: 700, max: 9000 }), (name, transport) => {
    const mtu = tunnelMtu(transport, [name]);
    assert.ok(outerBytes(mtu, name) <= transport);
    assert.ok(outerBytes(mtu + 1, name) > transport);
  }));
});
