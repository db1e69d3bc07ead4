import assert from "node:assert/strict";
import { createLog, errorText, type LogOptions } from "./log.ts";

function written(options: LogOptions = {}) {
  const lines: string[] = [];
  const log = createLog({ write: (line) => lines.push(line), now: () => new Date(0), ...options });
  return { log, records: () => lines.map((line) => JSON.parse(line)) };
}

Deno.test("createLog() writes one JSON object a line, with time, level, msg and fields", () => {
  const { log, records } = written();
  log.with({ kind: "IPsecGateway", namespace: "a" }).with({ name: "x" }).info("Attached", {
    port: 7,
    list: ["a"],
  });
  assert.deepEqual(records(), [{
    time: "1970-01-01T00:00:00.000Z",
    level: "info",
    msg: "Attached",
    kind: "IPsecGateway",
    namespace: "a",
    name: "x",
    port: 7,
    list: ["a"],
  }]);
});

Deno.test("createLog() leaves out what is below its level, and undefined fields", () => {
  const { log, records } = written({ level: "warn" });
  log.debug("no");
  log.info("no");
  log.warn("yes", { what: undefined });
  log.error("yes");
  assert.deepEqual(records().map(({ level, ...rest }) => [level, "what" in rest]), [["warn", false], [
    "error",
    false,
  ]]);
});

Deno.test("createLog() lets no field replace time, level or msg, and no newline break a line", () => {
  const lines: string[] = [];
  const log = createLog({ write: (line) => lines.push(line) });
  log.info("two\nlines", { level: "debug", msg: "other" });
  assert.equal(lines.length, 1);
  assert(!lines[0]!.includes("\n"));
  assert.deepEqual([JSON.parse(lines[0]!).level, JSON.parse(lines[0]!).msg], ["info", "two\nlines"]);
});

Deno.test("createLog() writes an error's messages and causes, nothing else of it", () => {
  const { log, records } = written();
  const cause = Object.assign(new TypeError("refused"), { secret: "geheim" });
  log.error("Failed", { error: new Error("Cannot connect", { cause }) });
  assert.equal(records()[0].error, "Cannot connect: refused");
  assert(!JSON.stringify(records()).includes("geheim"));
});

Deno.test("errorText() survives causes that repeat, loop, or are no errors", () => {
  const loop = new Error("a");
  loop.cause = loop;
  assert.equal(errorText(loop), "a");
  assert.equal(errorText(new Error("a: b", { cause: new Error("b") })), "a: b");
  assert.equal(errorText("text"), "text");
});
