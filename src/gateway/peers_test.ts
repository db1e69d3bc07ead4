import assert from "node:assert/strict";
import { remembering } from "./peers.ts";

const call = { signal: new AbortController().signal };

Deno.test("remembering() answers with the last addresses when a name does not resolve any more, for a day", async () => {
  let now = 0;
  let fails = false;
  const told: string[] = [];
  const resolve = remembering(
    () => fails ? Promise.reject(new Error("SERVFAIL")) : Promise.resolve(["192.0.2.1"]),
    {
      now: () => now,
      told: (host) => told.push(host),
    },
  );
  assert.deepEqual(await resolve("peer.example", call), ["192.0.2.1"]);
  fails = true;
  assert.deepEqual(await resolve("peer.example", call), ["192.0.2.1"]);
  assert.deepEqual(told, ["peer.example"]);
  await assert.rejects(resolve("other.example", call), /SERVFAIL/);
  now = 25 * 3_600_000;
  await assert.rejects(resolve("peer.example", call), /SERVFAIL/);
});
