// What the real swanctl makes of our swanctl.conf, against what we make of it. Needs Debian's strongswan-swanctl, no daemon.
import assert from "node:assert/strict";
import fc from "fast-check";
import type { SwanctlSection } from "../src/swanctl/model.ts";
import { parseSwanctl } from "../src/swanctl/parse.ts";
import { renderSwanctl } from "../src/swanctl/render.ts";
import { translateConnections } from "../src/swanctl/translate.ts";
import { startFakeCharon, SUCCESS } from "../src/vici/fake_charon.ts";
import { section, type ViciSection } from "../src/vici/message.ts";

/** Gives `text` to the real swanctl and compares the load-conn messages that it sends with ours. */
async function compare(texts: AsyncIterable<string> | Iterable<string>): Promise<void> {
  let messages: ViciSection[] = [];
  await using charon = await startFakeCharon(({ name, message }) => {
    if (name === "load-conn") messages.push(message);
    return name === "get-conns" ? section({ conns: [] }) : SUCCESS;
  });
  const file = await Deno.makeTempFile({ suffix: ".conf" });
  try {
    for await (const text of texts) {
      messages = [];
      await Deno.writeTextFile(file, text);
      const { code, stderr } = await new Deno.Command("swanctl", {
        args: ["--load-conns", "--file", file, "--uri", `unix://${charon.path}`],
        stdin: "null",
      }).output();
      const ours = translateConnections(parseSwanctl(text)).map(({ name, message }) =>
        new Map([[name, message]])
      );
      assert.equal(code, 0, `${new TextDecoder().decode(stderr)}\n${text}`);
      assert.deepEqual(messages, ours, text);
      assert.equal(JSON.stringify(messages, pairs), JSON.stringify(ours, pairs), text);
    }
  } finally {
    await Deno.remove(file);
  }
}

/** Maps with their order. */
const pairs = (_: string, value: unknown): unknown => value instanceof Map ? [...value] : value;

// charon's names are printable ASCII, and swanctl takes a % in one for a format; values of one byte per character, since swanctl passes bytes on as they are.
const name = fc.oneof(
  fc.string({
    minLength: 1,
    maxLength: 10,
    unit: fc.constantFrom(..."abcxyzABC019-_~$/;@!+*|[]()<>?^'`&\\"),
  }),
  fc.constantFrom("include", "connections", "proposals", "local-1", "10"),
);
const value = fc.string({
  maxLength: 20,
  unit: fc.oneof(
    fc.constantFrom(..."ab01 .,:#{}=\"'\\\n\r\t/-_@%"),
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 }),
  ),
})
  .filter((text) => !text.includes("\0"));
const list = fc.array(fc.string({ minLength: 1, maxLength: 8, unit: fc.constantFrom(..."ab01.:/-") }), {
  minLength: 1,
  maxLength: 3,
})
  .map((items) => items.join(", "));
const listName = fc.constantFrom("proposals", "local_ts", "remote_addrs", "esp_proposals");
const { body } = fc.letrec<{ body: SwanctlSection }>((tie) => ({
  body: fc.uniqueArray(
    fc.oneof(
      fc.tuple(
        name.filter((text) => text !== "proposals"),
        fc.oneof({ depthSize: "small" }, value, tie("body")),
      ),
      fc.tuple(listName, list),
    ),
    { maxLength: 5, selector: ([key]) => String(key) },
  ).map((entries) => new Map(entries as [string, string | SwanctlSection][])),
}));
const config = fc.uniqueArray(fc.tuple(name, body), { minLength: 1, maxLength: 3, selector: ([key]) => key })
  .map((entries): SwanctlSection => new Map([["connections", new Map(entries)]]));

Deno.test("translateConnections() sends what the real swanctl sends for 500 generated configurations", () =>
  compare(fc.sample(config, { numRuns: 500, seed: 20_261_130 }).map((one) => renderSwanctl(one))));

const HAND = [
  "connections {\n  a : base { remote_addrs = 1.2.3.4 }\n}\nbase {\n  version = 2\n  local { auth = psk } \n}",
  "connections { a { proposals = a,,b , 'c, d' , \"e\" \n version=1\n version = 2 } }",
  'connections\n{\n a\n {\n  local\n  { id = "x" y  "z"\n  auth =\n } } }',
  "connections { a { children { c { updown = a{b } } } }",
  "connections { a { id = a # b\n } }\nconnections { b { } a { id = c\nx = y } }",
  'connections { a { x = "a\\\n  b"\n y = "one\ntwo" } }',
  "connections { a {\r\n version = 2\r\n} }\r\n",
];
Deno.test("translateConnections() sends what the real swanctl sends for files written by hand", () =>
  compare(HAND));
