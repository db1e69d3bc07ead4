import assert from "node:assert/strict";
import { formsIn, formsOf, latin1 } from "./leak_search.ts";

const SECRET = 'psk/ä+"x"&0123456789';
const bytes = new TextEncoder().encode(SECRET);
const forms = formsOf(SECRET);
const text = (value: string) => latin1(new TextEncoder().encode(value));

Deno.test("formsIn() finds a secret raw, and inside of JSON", () => {
  assert.deepEqual(formsIn(text(`a ${SECRET} b`), forms), ["raw"]);
  assert.deepEqual(formsIn(text(JSON.stringify({ key: SECRET })), forms), ["raw"]);
});

Deno.test("formsIn() finds a secret in base64 at any place of a longer text", () => {
  for (const before of ["", "x", "xx", "xxx"]) {
    for (const after of ["", "y", "yy"]) {
      const whole = btoa(before + latin1(bytes) + after);
      assert.deepEqual(formsIn(`value: ${whole}`, forms), ["base64"], `${before} ${after}`);
      assert.deepEqual(formsIn(whole.replaceAll("+", "-").replaceAll("/", "_"), forms), ["base64"]);
    }
  }
});

Deno.test("formsIn() finds a secret in a JSON text that is encoded as a whole", () => {
  const json = text(JSON.stringify({ key: SECRET }));
  const hex = Array.from(json, (char) => char.charCodeAt(0).toString(16).padStart(2, "0")).join("");
  assert.deepEqual(formsIn(btoa(json), forms), ["base64"]);
  assert.deepEqual(formsIn(hex, forms), ["hex"]);
  assert.deepEqual(formsIn(encodeURIComponent(JSON.stringify({ key: SECRET })), forms), ["url"]);
});

Deno.test("formsIn() finds a secret in hex, in either case", () => {
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
  for (const whole of [hex.join(""), hex.join("").toUpperCase(), hex.join(":"), hex.join(" ")]) {
    assert.deepEqual(formsIn(`0x${whole}`, forms), ["hex"]);
  }
});

Deno.test("formsIn() finds a secret percent-encoded", () => {
  for (const whole of [encodeURIComponent(SECRET), String(new URLSearchParams({ key: SECRET }))]) {
    assert.deepEqual(formsIn(whole, forms), ["url"]);
  }
});

Deno.test("formsIn() finds nothing where there is nothing", () => {
  assert.deepEqual(formsIn(text("psk/ä+ 0123456789"), forms), []);
  assert.throws(() => formsOf("short"), RangeError);
});
