import assert from "node:assert/strict";
import { startFakeCharon, SUCCESS } from "../vici/fake_charon.ts";
import { bytesOf, listOf, section, textOf } from "../vici/message.ts";
import { connectVici } from "../vici/session.ts";
import type { DesiredKey } from "./desired.ts";
import { keyBytes, type KeyReport, type PushedKeys, pushKeys } from "./keys.ts";

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A charon that keeps keys, and what was pushed to it. */
async function withKeys(
  body: (
    push: (keys: DesiredKey[], always?: string[]) => Promise<KeyReport>,
    there: Map<string, { data: Uint8Array; owners: readonly string[] }>,
  ) => Promise<void>,
): Promise<void> {
  const there = new Map<string, { data: Uint8Array; owners: readonly string[] }>();
  await using charon = await startFakeCharon(({ name, message }) => {
    const id = textOf(message, "id") ?? "";
    if (name === "get-shared") return section({ keys: [...there.keys()] });
    if (name === "load-shared") {
      assert.equal(textOf(message, "type"), "IKE");
      if (id === "refused") return section({ success: "no", errmsg: "no" });
      there.set(id, { data: bytesOf(message, "data")!, owners: listOf(message, "owners") });
    } else there.delete(id);
    return SUCCESS;
  });
  await using session = await connectVici({ path: charon.path });
  const pushed: PushedKeys = new Map();
  await body(
    (keys, always = []) => pushKeys(session, { keys, pushed, prefix: "ours/", always: new Set(always) }),
    there,
  );
}

const key = (id: string, text: string | undefined, ...owners: string[]): DesiredKey => ({
  id,
  owners: owners.length > 0 ? owners : ["peer"],
  read: () => text === undefined ? Promise.reject(new Deno.errors.NotFound()) : Promise.resolve(encode(text)),
});

Deno.test("keyBytes() cuts one trailing newline and decodes nothing", () => {
  for (
    const [text, expected] of [
      ["a", "a"],
      ["a\n", "a"],
      ["a\n\n", "a\n"],
      ["a\r\n", "a\r"],
      ["0x41\n", "0x41"],
      ["\n", ""],
      ["", ""],
    ] as const
  ) {
    assert.deepEqual(keyBytes(encode(text)), encode(expected));
  }
});

Deno.test("pushKeys() pushes at first, on a change of bytes or owners, when charon lost it, and when it is asked to", () =>
  withKeys(async (push, there) => {
    const pushed = async (
      ...args: Parameters<typeof push>
    ): Promise<string[]> => [...(await push(...args)).pushed];
    assert.deepEqual(await pushed([key("ours/a", "one\n")]), ["ours/a"]);
    assert.deepEqual(there.get("ours/a"), { data: encode("one"), owners: ["peer"] });
    assert.deepEqual(await pushed([key("ours/a", "one")]), []); // the newline makes no difference
    assert.deepEqual(await pushed([key("ours/a", "two")]), ["ours/a"]);
    assert.deepEqual(await pushed([key("ours/a", "two", "peer", "other")]), ["ours/a"]);
    there.clear();
    assert.deepEqual(await pushed([key("ours/a", "two", "peer", "other")]), ["ours/a"]);
    assert.deepEqual(await pushed([key("ours/a", "two", "peer", "other")], ["ours/a"]), ["ours/a"]);
  }));

Deno.test("pushKeys() names what is missing, empty, too long or refused, and pushes the others", () =>
  withKeys(async (push, there) => {
    const report = await push([
      key("ours/a", undefined),
      key("ours/b", "\n"),
      key("ours/c", "x".repeat(70_000)),
      key("refused", "x"),
      { ...key("ours/d", "x"), owners: [] },
      key("ours/e", "x"),
    ]);
    assert.deepEqual([...report.failed.keys()], ["ours/a", "ours/b", "ours/c", "refused", "ours/d"]);
    assert.match(report.failed.get("ours/d") ?? "", /no owners/);
    assert.deepEqual([...there.keys()], ["ours/e"]);
    assert(!JSON.stringify([...report.failed]).includes("xxx"));
  }));

Deno.test("pushKeys() leaves charon's key where the file has gone, and unloads ours that are no longer wanted", () =>
  withKeys(async (push, there) => {
    there.set("foreign", { data: encode("f"), owners: [] });
    await push([key("ours/a", "x"), key("ours/b", "x")]);
    const report = await push([key("ours/a", undefined)]);
    assert.deepEqual(report.unloaded, ["ours/b"]);
    assert.deepEqual([...there.keys()].sort(), ["foreign", "ours/a"]);
  }));
