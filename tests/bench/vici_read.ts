// Our side of the bench "vici". `deno run -A vici_read.ts SOCKET`; the same as govici/main.go.
import { connectVici } from "../../src/vici/session.ts";
import type { ViciSection } from "../../src/vici/message.ts";

/** Touches every string: how many there are and how long they are together. */
function walk(from: ViciSection, total: { strings: number; length: number }): void {
  for (const [name, value] of from) {
    total.strings++;
    total.length += name.length;
    if (typeof value === "string") {
      total.strings++;
      total.length += value.length;
    } else if (value instanceof Map) walk(value, total);
    else {
      for (const item of value as readonly string[]) {
        total.strings++;
        total.length += item.length;
      }
    }
  }
}

/** FNV-1a over every string, in order, each ended by a zero byte. */
function checksum(from: ViciSection, hash: number): number {
  const add = (text: string): void => {
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0;
    hash = Math.imul(hash, 0x01000193) >>> 0;
  };
  for (const [name, value] of from) {
    add(name);
    if (typeof value === "string") add(value);
    else if (value instanceof Map) hash = checksum(value, hash);
    else for (const item of value as readonly string[]) add(item);
  }
  return hash;
}

await using session = await connectVici({ path: Deno.args[0]! });
const ms: number[] = [];
let hash = 0, strings = 0;
for (let turn = 0; turn < 25; turn++) {
  const begun = performance.now();
  const events: ViciSection[] = [];
  const total = { strings: 0, length: 0 };
  for await (const event of session.stream("list-sas", "list-sa")) events.push(event);
  for (const event of events) walk(event, total);
  const took = performance.now() - begun;
  if (events.length !== 2_000) {
    throw new Error(`Cannot read 2,000 IKE_SAs: current number is ${events.length}`);
  }
  if (turn >= 5) ms.push(took);
  hash = events.reduce((sum, event) => checksum(event, sum), 0x811c9dc5);
  strings = total.strings;
}
const result = JSON.stringify({ ms, checksum: hash.toString(16), strings });
await Deno.stdout.write(new TextEncoder().encode(result));
