// ./run itself: what it refuses, and how.
import assert from "node:assert/strict";
import { attempt, type Ran } from "./lab/command.ts";

const RUN = new URL("../run", import.meta.url).pathname;

function runScript(...argv: string[]): Promise<Ran> {
  return attempt([RUN, ...argv]);
}

Deno.test("./run says how it is used and exits with 2 when it is called wrongly", async () => {
  for (
    const [argv, problem] of [
      [[], /^usage:/],
      [["dmeo"], /^run: unknown command: dmeo/],
      [["lab"], /^run: lab: unknown action: ''/],
      [["lab", "up", "k9s"], /^run: lab: unknown part: k9s/],
      [["demo", "now"], /^run: demo: unexpected: now/],
      [["test", "--kep"], /^run: test: unknown option: --kep/],
      [["down", "all"], /^run: down: unexpected: all/],
    ] as const
  ) {
    const { code, stdout, stderr } = await runScript(...argv);
    assert.equal(code, 2, argv.join(" "));
    assert.match(stderr, problem);
    assert.match(stderr, /usage: \.\/run demo/);
    assert.equal(stdout, "");
  }
});

Deno.test("./run help prints the usage and exits with 0", async () => {
  const { code, stdout } = await runScript("help");
  assert.equal(code, 0);
  assert.match(stdout, /\.\/run test \[--keep\] \[FILTER\]/);
});

Deno.test("./run refuses politely when it is not run by root", async () => {
  const { code, stderr } = await attempt([
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "bash",
    "-s",
    "demo",
  ], {
    // Read from standard input: the checkout may lie where nobody else can read.
    input: (await Deno.readTextFile(RUN)).replace(/^cd .*$/m, ""),
  });
  assert.equal(code, 2, stderr);
  assert.match(stderr, /Cannot set up the lab as nobody: .* need root .*Nothing was changed/);
});

Deno.test("./run lab status tells each part", async () => {
  const { stdout } = await runScript("lab", "status");
  for (const part of ["k8s", "openstack", "partner", "fabric", "proxy"]) {
    assert.match(stdout, new RegExp(`^${part}: (up|down)`, "m"));
  }
});
