import assert from "node:assert/strict";
import { detectDriver } from "./detect.ts";
import type { Exec } from "./exec.ts";

/** A kernel that refuses the commands that hold one of these words; it records what was run. */
function kernel(refused: string[], ran: string[] = []): Exec {
  return (argv) => {
    const line = argv.join(" ");
    ran.push(line);
    const code = refused.some((word) => line.includes(word)) ? 2 : 0;
    return Promise.resolve({ code, stdout: "", stderr: code ? "Unknown device type." : "" });
  };
}

Deno.test("detectDriver() takes xfrm when link and SA can be made, and leaves nothing behind", async () => {
  const ran: string[] = [];
  assert.equal((await detectDriver("auto", kernel([], ran))).driver, "xfrm");
  const last = ran.filter((line) => line.includes("ipsecprobe") || line.includes("xfrm state"));
  assert.match(last.at(-1) ?? "", /^ip xfrm state delete/);
  assert.equal(ran.filter((line) => line.includes("link add")).length, 1);
  assert.match(ran[ran.findIndex((line) => line.includes("link add")) + 1] ?? "", /link delete/);
});

Deno.test("detectDriver() takes libipsec and says why when the kernel lacks either", async () => {
  assert.deepEqual(await detectDriver("auto", kernel(["link add"])), {
    driver: "libipsec",
    reason: "no XFRM interface can be made: Unknown device type.",
  });
  assert.match((await detectDriver("auto", kernel(["state add"]))).reason, /^no ESP SA can be made/);
});

Deno.test("detectDriver() refuses when xfrm is asked for and missing, and probes nothing for libipsec", async () => {
  await assert.rejects(detectDriver("xfrm", kernel(["link add"])), /Cannot use the data plane xfrm/);
  const ran: string[] = [];
  assert.equal((await detectDriver("libipsec", kernel([], ran))).driver, "libipsec");
  assert.deepEqual(ran, []);
});
