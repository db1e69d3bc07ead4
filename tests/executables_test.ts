// The compiled executables as a person calls them: wrong flags are told one a line, help and version are no failure.
import assert from "node:assert/strict";
import config from "../deno.json" with { type: "json" };
import { attempt } from "./lab/command.ts";

type Program = "controller" | "status-agent";

const NEEDED = ["--service-cidr-pool=100.64.0.0/16", "--image-strongswan=s", "--image-status-agent=a"];

/** Runs one of dist/ with these variables beside our own. */
function call(program: Program, args: readonly string[], env: Record<string, string> = {}) {
  const file = new URL(`../dist/${program}`, import.meta.url).pathname;
  return attempt([file, ...args], { env, timeoutMs: 60_000 });
}

interface Wrong {
  readonly program: Program;
  readonly args: readonly string[];
  readonly env?: Record<string, string>;
  /** One for each line on standard error, in this order. */
  readonly lines: readonly RegExp[];
}

const WRONG: readonly Wrong[] = [
  {
    program: "controller",
    args: [],
    lines: [
      /^Cannot start without --service-cidr-pool \(or IPSEC_OPERATOR_SERVICE_CIDR_POOL\): ./,
      /^Cannot start without --image-strongswan \(or IPSEC_OPERATOR_IMAGE_STRONGSWAN\): ./,
      /^Cannot start without --image-status-agent \(or IPSEC_OPERATOR_IMAGE_STATUS_AGENT\): ./,
    ],
  },
  {
    program: "controller",
    args: [
      ...NEEDED,
      "--wokers=2",
      "junk",
      "--network-id=tenant-net",
      "--workers=0",
      "--agent-interval=soon",
    ],
    lines: [
      /^Cannot use --wokers: there is no such flag; did you mean --workers\?$/,
      /^Cannot use argument "junk": only flags like --name=value are expected$/,
      /^Cannot use --workers: it must be 1 to 64; current value is "0"$/,
      /^Cannot use --agent-interval: it must be a duration like .*; current value is "soon"$/,
      /^Cannot use --network-id: it must be a UUID; current value is "tenant-net"$/,
    ],
  },
  {
    program: "controller",
    args: ["--service-cidr-pool=10.0.0.0/25", ...NEEDED.slice(1), "--metrics-bind-address=nowhere"],
    lines: [
      /^Cannot use --metrics-bind-address: it must be an address like .*; current value is "nowhere"$/,
      /^Cannot use --service-cidr-pool: it must be \/24 or larger: 10\.0\.0\.0\/25 .*/,
    ],
  },
  {
    program: "controller",
    args: NEEDED,
    env: { IPSEC_OPERATOR_DATA_PLANE: "magic" },
    lines: [
      /^Cannot use IPSEC_OPERATOR_DATA_PLANE: it must be one of auto, xfrm, libipsec; current value is "magic"$/,
    ],
  },
  {
    program: "status-agent",
    args: [],
    lines: [/^Cannot start status-agent: no sub-command is given; .*gateway$/],
  },
  {
    program: "status-agent",
    args: ["gatway"],
    lines: [/^Cannot start status-agent: there is no "gatway"; .*gateway$/],
  },
  {
    program: "status-agent",
    args: ["gateway", "--interval=10ms", "--report=maybe", "--psk=x"],
    lines: [
      /^Cannot use --psk: there is no such flag; see --help$/,
      /^Cannot use --interval: it must be from 1s to 10m; current value is "10ms"$/,
      /^Cannot use --report: it must be true or false; current value is "maybe"$/,
    ],
  },
];

for (const { program, args, env, lines } of WRONG) {
  const title = [program, ...args, ...Object.entries(env ?? {}).map((pair) => pair.join("="))].join(" ");
  Deno.test(`${title} exits with 2 and says each problem in one line`, async () => {
    const { code, stdout, stderr } = await call(program, args, env);
    assert.equal(code, 2, stderr);
    assert.equal(stdout, "");
    const said = stderr.trimEnd().split("\n");
    assert.equal(said.length, lines.length, stderr);
    for (const [index, line] of lines.entries()) assert.match(said[index] ?? "", line);
  });
}

const ASKED: readonly (readonly [Program, readonly string[], RegExp])[] = [
  ["controller", ["--help"], /^controller .*\n[^]*--service-cidr-pool=CIDRS\n/],
  ["controller", ["--version"], new RegExp(`^controller ${config.version}\n$`)],
  ["status-agent", ["--help"], /^status-agent .*\n[^]*status-agent gateway/],
  ["status-agent", ["--version"], new RegExp(`^status-agent ${config.version}\n$`)],
  ["status-agent", ["gateway", "--help"], /^status-agent gateway .*\n[^]*--interval=DURATION\n/],
  ["status-agent", ["gateway", "--version"], new RegExp(`^status-agent gateway ${config.version}\n$`)],
];

for (const [program, args, says] of ASKED) {
  Deno.test(`${program} ${args.join(" ")} exits with 0 and answers on standard output`, async () => {
    const { code, stdout, stderr } = await call(program, args);
    assert.equal(code, 0, stderr);
    assert.equal(stderr, "");
    assert.match(stdout, says);
  });
}
