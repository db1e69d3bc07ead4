import assert from "node:assert/strict";
import fc from "fast-check";
import { defineFlags, envName, flagsOrExit, LOG_FLAGS, parseDuration, parseFlags } from "./flags.ts";

const TABLE = defineFlags({
  ...LOG_FLAGS,
  "metrics-bind-address": { type: "address", default: ":8080", help: "Where metrics are served." },
  "leader-elect": { type: "boolean", default: true, help: "Elect a leader." },
  "watch-namespaces": { type: "list", default: [], help: "Only these." },
  "resync": { type: "duration", default: 60_000, help: "How often to look." },
  "workers": {
    type: "integer",
    default: 4,
    help: "Workers.",
    check: (count) => count < 1 ? "must be at least 1" : undefined,
  },
  "service-cidr-pool": { type: "string", required: true, value: "CIDR", help: "Pool of /24s." },
  "cloud": { type: "string", help: "Name of a cloud." },
});
const TEXT = { program: "controller", version: "1.2.3", about: "the operator" };

function parse(
  args: string[],
  env: Record<string, string> = { IPSEC_OPERATOR_SERVICE_CIDR_POOL: "10.0.0.0/16" },
) {
  return parseFlags(TABLE, { args, env: (name) => env[name], ...TEXT });
}

/** The lines of what is wrong. */
function problems(args: string[], env?: Record<string, string>): string[] {
  const { exit } = parse(args, env);
  assert.equal(exit?.code, 2);
  return exit.text.split("\n");
}

Deno.test("parseFlags() gives defaults, and undefined for what has none", () => {
  assert.deepEqual(parse([]).values, {
    "log-level": "info",
    "metrics-bind-address": ":8080",
    "leader-elect": true,
    "watch-namespaces": [],
    "resync": 60_000,
    "workers": 4,
    "service-cidr-pool": "10.0.0.0/16",
    "cloud": undefined,
  });
});

Deno.test("parseFlags() reads both forms of a flag, lists and repetitions", () => {
  const { values } = parse([
    "--metrics-bind-address=127.0.0.1:0",
    "--workers",
    "2",
    "--leader-elect=false",
    "--watch-namespaces=a, b",
    "--watch-namespaces",
    "c",
    "--resync=1m30s",
    "--cloud=x=y",
  ]);
  assert.equal(values?.["metrics-bind-address"], "127.0.0.1:0");
  assert.equal(values?.workers, 2);
  assert.equal(values?.["leader-elect"], false);
  assert.deepEqual(values?.["watch-namespaces"], ["a", "b", "c"]);
  assert.equal(values?.resync, 90_000);
  assert.equal(values?.cloud, "x=y");
});

Deno.test("parseFlags() takes a boolean with and without its value", () => {
  assert.equal(parse(["--leader-elect", "--workers=1"]).values?.["leader-elect"], true);
  assert.equal(parse(["--leader-elect", "false"]).values?.["leader-elect"], false);
});

Deno.test("parseFlags() takes the environment, and the flag over it", () => {
  const env = {
    IPSEC_OPERATOR_SERVICE_CIDR_POOL: "a",
    IPSEC_OPERATOR_WORKERS: "7",
    IPSEC_OPERATOR_LOG_LEVEL: "",
  };
  assert.equal(parse([], env).values?.workers, 7);
  assert.equal(parse([], env).values?.["log-level"], "info");
  assert.equal(parse(["--workers=8"], env).values?.workers, 8);
  assert.equal(envName("watch-namespaces"), "IPSEC_OPERATOR_WATCH_NAMESPACES");
});

Deno.test("parseFlags() tells all problems, one line each, with where the value came from", () => {
  const lines = problems(
    [
      "--log-level=loud",
      "--worker=3",
      "extra",
      "--leader-elect=maybe",
      "--resync",
      "--metrics-bind-address=8080",
    ],
    { IPSEC_OPERATOR_WORKERS: "0" },
  );
  assert.deepEqual(lines.sort(), [
    "Cannot start without --service-cidr-pool (or IPSEC_OPERATOR_SERVICE_CIDR_POOL): Pool of /24s.",
    'Cannot use --leader-elect: it must be true or false; current value is "maybe"',
    'Cannot use --log-level: it must be one of debug, info, warn, error; current value is "loud"',
    'Cannot use --metrics-bind-address: it must be an address like :8080 or 127.0.0.1:0, or 0 for none; current value is "8080"',
    "Cannot use --resync: its value is missing",
    "Cannot use --worker: there is no such flag; did you mean --workers?",
    'Cannot use IPSEC_OPERATOR_WORKERS: it must be at least 1; current value is "0"',
    'Cannot use argument "extra": only flags like --name=value are expected',
  ]);
});

Deno.test("parseFlags() knows no flag by the name of an object's own members", () => {
  assert.match(problems(["--constructor=x"])[0]!, /no such flag; see --help/);
});

Deno.test("parseFlags() answers --help with each flag, its variable and default, and --version", () => {
  const help = parse(["--help"]).exit;
  assert.equal(help?.code, 0);
  for (const name of Object.keys(TABLE)) {
    assert(help.text.includes(`--${name}`), name);
    assert(help.text.includes(envName(name)), name);
  }
  assert.match(help.text, /--resync=DURATION\n {6}How often to look\.\n.*default 1m\./);
  assert.match(help.text, /--service-cidr-pool=CIDR\n.*\n.*required/);
  assert.deepEqual(parse(["--version", "--nonsense"]).exit, { code: 0, text: "controller 1.2.3" });
});

Deno.test("parseFlags() never throws, whatever the arguments", () => {
  fc.assert(fc.property(fc.array(fc.oneof(fc.string(), fc.string().map((text) => `--${text}`))), (args) => {
    const parsed = parse(args);
    return parsed.values !== undefined || parsed.exit.text.length > 0;
  }));
});

Deno.test("parseDuration() reads units and their sums", () => {
  assert.deepEqual(["0s", "500ms", "1.5s", "2m", "1h", "1m30s"].map(parseDuration), [
    0,
    500,
    1500,
    120_000,
    3_600_000,
    90_000,
  ]);
  for (const text of ["", "5", "5 s", "-1s", "1d", "s"]) {
    assert.throws(() => parseDuration(text), SyntaxError);
  }
});

Deno.test("flagsOrExit() gives good values", () => {
  const env = () => "10.0.0.0/16";
  assert.equal(
    flagsOrExit({ pool: { type: "string", help: "" } }, { args: [], env, ...TEXT }).pool,
    "10.0.0.0/16",
  );
});

// Types are part of the contract: what has no default may be undefined, an enum is one of its values.
const values = parse([]).values;
values?.workers satisfies number | undefined;
values?.["log-level"] satisfies "debug" | "info" | "warn" | "error" | undefined;
// @ts-expect-error: a flag without a default may be undefined.
if (values) values.cloud satisfies string;
