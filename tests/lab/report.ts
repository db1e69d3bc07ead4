// deno-lint-ignore-file no-console -- what it prints is its purpose
// What came of `./run test`: the failures, what was not run, the ten slowest tests, and the sum as the last line.
//   deno run --allow-read tests/lab/report.ts FOLDER NOT_RUN_LIST
// FOLDER holds parts.jsonl (a line for each part of the set-up and each suite) and a JUnit file SUITE.xml for each suite.

/** One test or test step of a JUnit file. */
export interface Case {
  readonly suite: string;
  readonly name: string;
  readonly seconds: number;
  readonly outcome: "passed" | "failed" | "skipped";
  /** What went wrong, its first line; empty unless it failed. */
  readonly message: string;
}

/** A line of parts.jsonl. */
export interface Part {
  readonly suite: string;
  /** Only for a part of the set-up. */
  readonly name?: string;
  readonly code: number;
  readonly log?: string;
  readonly seconds?: number;
}

/** A test that did not run, and why; `listed` when tests/not_run.txt allows it. */
export interface NotRun {
  readonly name: string;
  readonly reason: string;
  readonly listed: boolean;
}

export interface Report {
  readonly passed: number;
  readonly failed: number;
  /** One line for each failure. */
  readonly failures: readonly string[];
  readonly notRun: readonly NotRun[];
  readonly slowest: readonly Case[];
  /** Each suite and how long it took. */
  readonly suites: readonly { readonly name: string; readonly seconds: number }[];
}

const ENTITIES: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };

function unescapeXml(text: string): string {
  return text.replace(
    /&(?:#(\d+)|#x([0-9a-fA-F]+)|(\w+));/g,
    (whole, decimal?: string, hexadecimal?: string, name?: string) => {
      if (decimal) return String.fromCodePoint(Number(decimal));
      if (hexadecimal) return String.fromCodePoint(parseInt(hexadecimal, 16));
      return ENTITIES[name ?? ""] ?? whole;
    },
  );
}

/** The cases of a JUnit file as Deno writes it; its test steps are cases named "TEST > STEP". */
export function parseJunit(suite: string, xml: string): Case[] {
  const cases: Case[] = [];
  for (const [, attributes = "", body = ""] of xml.matchAll(/<testcase ([^>]*?)>([\s\S]*?)<\/testcase>/g)) {
    const attribute = (name: string) =>
      unescapeXml(attributes.match(new RegExp(`\\b${name}="([^"]*)"`))?.[1] ?? "");
    const failure = body.match(/<(?:failure|error) message="([^"]*)"/);
    cases.push({
      suite,
      name: attribute("name"),
      seconds: Number(attribute("time")) || 0,
      outcome: failure ? "failed" : body.includes("<skipped") ? "skipped" : "passed",
      message: unescapeXml(failure?.[1] ?? "").split("\n")[0] ?? "",
    });
  }
  return cases;
}

/** The list of what may be left out: "SUITE: NAME" to its reason. Throws a SyntaxError naming a line it can't read. */
export function parseNotRunList(text: string): Map<string, string> {
  const list = new Map<string, string>();
  for (const line of text.split("\n")) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    const match = line.match(/^(\S+: .+) \((.+)\)$/);
    if (!match) throw new SyntaxError(`Cannot read the list of tests not run: current line is ${line}`);
    list.set(match[1]!, match[2]!);
  }
  return list;
}

/** Sums up. A suite that ended badly without a failing test (no tests, a crash, a timeout) is one failure. */
export function summarise(
  parts: readonly Part[],
  { cases, list }: { cases: readonly Case[]; list: ReadonlyMap<string, string> },
): Report {
  const failures: string[] = [];
  const notRun: NotRun[] = [];
  for (const part of parts) {
    const own = cases.filter((one) => one.suite === part.suite);
    if (part.name !== undefined) {
      if (part.code !== 0) failures.push(`${part.suite}: ${part.name}: exit code ${part.code}`);
    } else if (part.code !== 0 && !own.some((one) => one.outcome === "failed")) {
      failures.push(`${part.suite}: ended with exit code ${part.code}, see ${part.log ?? "its log"}`);
    }
  }
  const broken = new Set(parts.filter((part) => part.code !== 0).map((part) => part.suite));
  const failedSteps = cases.filter((one) => one.outcome === "failed" && one.name.includes(" > "));
  for (const one of cases) {
    const name = `${one.suite}: ${one.name}`;
    // A test that failed because of a step is that step's failure, not one more.
    const ofStep = failedSteps.some((step) =>
      step.suite === one.suite && step.name.startsWith(`${one.name} > `)
    );
    if (one.outcome === "failed" && !ofStep) failures.push(`${name}: ${one.message}`);
    // Behind a failed hook all tests of a suite read "skipped".
    if (one.outcome !== "skipped" || broken.has(one.suite)) continue;
    const reason = list.get(name);
    notRun.push({
      name,
      reason: reason ?? "not on the list tests/not_run.txt",
      listed: reason !== undefined,
    });
    if (reason === undefined) failures.push(`${name}: was not run and is not on the list tests/not_run.txt`);
  }
  const passed = cases.filter((one) => one.outcome === "passed").length;
  if (passed === 0 && failures.length === 0) failures.push("no test was run");
  const slowest = cases
    .filter((one) => !one.name.includes(" > "))
    .toSorted((a, b) => b.seconds - a.seconds || (a.name < b.name ? -1 : 1))
    .slice(0, 10);
  const suites = parts.filter((part) => part.name === undefined)
    .map((part) => ({ name: part.suite, seconds: part.seconds ?? 0 }))
    .toSorted((a, b) => b.seconds - a.seconds || (a.name < b.name ? -1 : 1));
  return { passed, failed: failures.length, failures, notRun, slowest, suites };
}

/** The report as printed; its last line is "N passed, N failed". */
export function render(report: Report): string {
  const lines: string[] = [];
  if (report.failures.length > 0) lines.push("failed:", ...report.failures.map((line) => `  ${line}`));
  if (report.suites.length > 0) {
    lines.push(`suites: ${report.suites.map(({ name, seconds }) => `${name} ${seconds} s`).join(", ")}`);
  }
  if (report.slowest.length > 0) {
    lines.push("slowest tests:");
    for (const one of report.slowest) {
      lines.push(`  ${one.seconds.toFixed(1).padStart(6)} s  ${one.suite}: ${one.name}`);
    }
  }
  lines.push(...report.notRun.map(({ name, reason }) => `not run: ${name} (${reason})`));
  lines.push(`${report.passed} passed, ${report.failed} failed`);
  return lines.join("\n");
}

async function main(folder: string, listFile: string): Promise<number> {
  const lines = (await Deno.readTextFile(`${folder}/parts.jsonl`)).split("\n").filter(Boolean);
  const parts = lines.map((line) => JSON.parse(line) as Part);
  const cases: Case[] = [];
  for (const part of parts) {
    if (part.name !== undefined) continue;
    const xml = await Deno.readTextFile(`${folder}/${part.suite}.xml`).catch(() => "");
    cases.push(...parseJunit(part.suite, xml));
  }
  const report = summarise(parts, { cases, list: parseNotRunList(await Deno.readTextFile(listFile)) });
  console.log(render(report));
  return report.failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args[0] ?? "", Deno.args[1] ?? ""));
