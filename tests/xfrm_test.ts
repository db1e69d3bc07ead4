// One gateway's charon, status-agent and nat rules against a policy-based peer, without a cluster: once in an emulated
// kernel with kernel ESP and an XFRM interface, once on this machine with libipsec. The checks are in
// tests/lab/emulated/scenario.sh; each is a step here. Needs root and dist/status-agent (`deno task compile`).
import assert from "node:assert/strict";
import { writeScenario } from "./lab/emulated/files.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const EMULATED = `${ROOT}tests/lab/emulated`;
const AGENT = `${ROOT}dist/status-agent`;
/** An emulated machine beside a busy lab is slow: a run takes some 100 s alone. */
const LIMIT_S = 900;

/** A check as scenario.sh prints it, with the lines of its output when it failed. */
interface Check {
  readonly name: string;
  readonly passed: boolean;
  readonly said: readonly string[];
}

function parseChecks(output: string): Check[] {
  const checks: { name: string; passed: boolean; said: string[] }[] = [];
  for (const line of output.split("\n")) {
    const [, word, name] = /^(PASS|FAIL) (.*)$/.exec(line) ?? [];
    if (name !== undefined) checks.push({ name, passed: word === "PASS", said: [] });
    else if (line.startsWith("#   ")) checks.at(-1)?.said.push(line.slice(4));
  }
  return checks;
}

/** Runs the scenario and gives what it printed; the logs of a run that failed are kept, and named. */
async function runScenario(driver: "xfrm" | "libipsec", t: Deno.TestContext): Promise<void> {
  await Deno.stat(AGENT).catch((cause) => {
    throw new Error("Cannot run the scenario: dist/status-agent is not there, run `deno task compile`", {
      cause,
    });
  });
  const folder = await Deno.makeTempDir({ prefix: `ipsec-${driver}-` });
  await Deno.mkdir(`${folder}/results`);
  await writeScenario(`${folder}/files`, driver);
  const scenario = [`${EMULATED}/scenario.sh`, `${folder}/files`];
  const argv = driver === "xfrm"
    ? [
      `${EMULATED}/run.sh`,
      "-t",
      String(LIMIT_S),
      "-r",
      `${folder}/results`,
      [...scenario, "/results", AGENT].join(" "),
    ]
    : [...scenario, `${folder}/results`, AGENT];
  const { code, stdout, stderr } = await new Deno.Command(argv[0]!, { args: argv.slice(1), cwd: ROOT })
    .output();
  const output = new TextDecoder().decode(stdout);
  const checks = parseChecks(output);
  for (const { name, passed, said } of checks) {
    await t.step(name, () => assert.ok(passed, `${said.join("\n")}\nLogs: ${folder}/results`));
  }
  const end = `${output.slice(-2000)}\n${
    new TextDecoder().decode(stderr).slice(-2000)
  }\nLogs: ${folder}/results`;
  await t.step("the scenario came to its end", () => {
    assert.equal(code, 0, end);
    assert.match(output, /^# \[.*\] done$/m, end);
  });
  if (code === 0 && checks.every(({ passed }) => passed)) await Deno.remove(folder, { recursive: true });
}

Deno.test("a gateway in the emulated kernel carries packets by kernel ESP and an XFRM interface", (t) =>
  runScenario("xfrm", t));

Deno.test("the same gateway on this machine carries packets by libipsec", (t) => runScenario("libipsec", t));
