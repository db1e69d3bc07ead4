/**
 * Flags by a table. Each is also an environment variable: `--metrics-bind-address` is
 * `IPSEC_OPERATOR_METRICS_BIND_ADDRESS`; the flag wins. All problems are told at once, one line each.
 */
import { parseAddress } from "./address.ts";
import { LOG_LEVELS } from "./log.ts";

interface FlagBase<T> {
  /** One sentence or two, without the default. */
  help: string;
  /** Complaint about a value, or undefined when it is good: `"must be a /16 to a /24"`. */
  check?: (value: T) => string | undefined;
  /** Word for the value in the help, for instance "CIDR". */
  value?: string;
}

interface Typed<Name extends string, T> extends FlagBase<T> {
  type: Name;
  /** No default: the value is undefined when the flag is not given, unless it is `required`. */
  default?: T;
  required?: boolean;
}

/** One flag of a table; `type` says how its text is read. */
export type Flag =
  | Typed<"string", string>
  | Typed<"boolean", boolean>
  | Typed<"integer", number>
  /** "500ms", "15s", "2m", "1h"; milliseconds. */
  | Typed<"duration", number>
  /** ":8080" or "127.0.0.1:0"; "0" turns the server off, as in controller-runtime. */
  | Typed<"address", string>
  /** Separated by commas; the flag may be repeated. */
  | Typed<"list", readonly string[]>
  | (Typed<"enum", string> & { values: readonly string[] });

/** Flags by name, without the dashes. */
export type FlagTable = Readonly<Record<string, Flag>>;

type ValueOf<F extends Flag> = F extends { type: "boolean" } ? boolean
  : F extends { type: "integer" | "duration" } ? number
  : F extends { type: "list" } ? readonly string[]
  : F extends { values: readonly (infer V)[] } ? V
  : string;

/** The values of a table: a flag with neither a default nor `required` may be undefined. */
export type FlagValues<T extends FlagTable> = {
  readonly [K in keyof T]:
    | ValueOf<T[K]>
    | (T[K] extends { default: unknown } | { required: true } ? never : undefined);
};

/** Checks a table's type while keeping its literal types. */
export function defineFlags<const T extends FlagTable>(table: T): T {
  return table;
}

/** The flag that every executable has. */
export const LOG_FLAGS = defineFlags({
  "log-level": {
    type: "enum",
    values: LOG_LEVELS,
    default: "info",
    help: "Least important records that are written.",
  },
});

export interface ProgramText {
  /** As it is called: "controller", "status-agent gateway". */
  program: string;
  version: string;
  /** One line: what it does. */
  about: string;
}

/** Good values, or what to print and how to exit. */
export type ParsedFlags<T extends FlagTable> =
  | { values: FlagValues<T>; exit?: undefined }
  | { values?: undefined; exit: { code: 0 | 2; text: string } };

const ENV_PREFIX = "IPSEC_OPERATOR_";

/** The environment variable of a flag. */
export function envName(flag: string): string {
  return ENV_PREFIX + flag.toUpperCase().replaceAll("-", "_");
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/**
 * Milliseconds of "500ms", "15s", "2m", "1h", "1m30s".
 *
 * @throws SyntaxError
 */
export function parseDuration(text: string): number {
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text)) {
    throw new SyntaxError(
      `Cannot read the duration ${JSON.stringify(text)}: write it like 500ms, 15s, 2m or 1h`,
    );
  }
  let ms = 0;
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)) {
    ms += Number(count) * UNITS[unit!]!;
  }
  return Math.round(ms);
}

function formatDuration(ms: number): string {
  for (const [unit, size] of [["h", 3_600_000], ["m", 60_000], ["s", 1000]] as const) {
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}ms`;
}

/** The value that a flag's text means; a string that starts with "must" is a complaint. */
function read(flag: Flag, text: string): { value: unknown } | { problem: string } {
  switch (flag.type) {
    case "string":
      return { value: text };
    case "boolean":
      if (["true", "1"].includes(text)) return { value: true };
      return ["false", "0"].includes(text) ? { value: false } : { problem: "must be true or false" };
    case "integer":
      return /^-?\d{1,15}$/.test(text) ? { value: Number(text) } : { problem: "must be a whole number" };
    case "duration":
      try {
        return { value: parseDuration(text) };
      } catch {
        return { problem: "must be a duration like 500ms, 15s, 2m or 1h" };
      }
    case "address":
      try {
        if (text !== "0") parseAddress(text);
        return { value: text };
      } catch {
        return { problem: "must be an address like :8080 or 127.0.0.1:0, or 0 for none" };
      }
    case "list":
      return { value: text.split(",").map((each) => each.trim()).filter((each) => each !== "") };
    case "enum":
      return flag.values.includes(text)
        ? { value: text }
        : { problem: `must be one of ${flag.values.join(", ")}` };
  }
}

interface Given {
  text: string;
  /** How the user wrote it: "--log-level" or the variable's name. */
  from: string;
}

/** What the arguments say, by flag; problems are added to `problems`. */
function readArguments(table: FlagTable, args: readonly string[], problems: string[]): Map<string, Given> {
  const given = new Map<string, Given>();
  for (let at = 0; at < args.length; at++) {
    const arg = args[at]!;
    const match = /^--([^=]+)(?:=(.*))?$/s.exec(arg);
    if (!match) {
      problems.push(`Cannot use argument ${JSON.stringify(arg)}: only flags like --name=value are expected`);
      continue;
    }
    const name = match[1]!;
    const flag = Object.hasOwn(table, name) ? table[name] : undefined;
    if (!flag) {
      const near = nearest(name, Object.keys(table));
      problems.push(
        `Cannot use --${name}: there is no such flag${near ? `; did you mean --${near}?` : "; see --help"}`,
      );
      // Its value, if that is the next argument, is not to blame.
      if (match[2] === undefined && args[at + 1] !== undefined && !args[at + 1]!.startsWith("--")) at++;
      continue;
    }
    let text = match[2];
    if (text === undefined) {
      const next = args[at + 1];
      if (flag.type === "boolean" && !(next !== undefined && /^(true|false|0|1)$/.test(next))) text = "true";
      else if (next === undefined || next.startsWith("--")) {
        problems.push(`Cannot use --${name}: its value is missing`);
        continue;
      } else {
        text = next;
        at++;
      }
    }
    const before = flag.type === "list" ? given.get(name)?.text : undefined;
    given.set(name, { text: before === undefined ? text : `${before},${text}`, from: `--${name}` });
  }
  return given;
}

/**
 * Reads `args` and the environment by `table`. `--help` and `--version` end with code 0 and their text; problems end
 * with code 2 and one line for each.
 */
export function parseFlags<T extends FlagTable>(
  table: T,
  { args, env, ...text }:
    & { args: readonly string[]; env: (name: string) => string | undefined }
    & ProgramText,
): ParsedFlags<T> {
  if (args.includes("--help") || args.includes("-h")) {
    return { exit: { code: 0, text: helpText(table, text) } };
  }
  if (args.includes("--version")) return { exit: { code: 0, text: `${text.program} ${text.version}` } };
  const problems: string[] = [];
  const given = readArguments(table, args, problems);
  const values: Record<string, unknown> = {};
  for (const [name, flag] of Object.entries<Flag>(table)) {
    const variable = env(envName(name));
    const source = given.get(name) ?? (variable ? { text: variable, from: envName(name) } : undefined);
    if (!source) {
      values[name] = flag.default;
      if (flag.required && flag.default === undefined) {
        problems.push(`Cannot start without --${name} (or ${envName(name)}): ${flag.help}`);
      }
      continue;
    }
    const result = read(flag, source.text);
    // Which type `check` takes goes with `type`; the union of tables can't say so.
    const check = flag.check as ((value: unknown) => string | undefined) | undefined;
    const problem = "problem" in result ? result.problem : check?.(result.value);
    if (problem) {
      problems.push(
        `Cannot use ${source.from}: it ${problem}; current value is ${JSON.stringify(source.text)}`,
      );
    } else if ("value" in result) values[name] = result.value;
  }
  if (problems.length) return { exit: { code: 2, text: problems.join("\n") } };
  return { values: values as FlagValues<T> };
}

/** The help: what the program does, each flag with its variable and default. */
export function helpText(table: FlagTable, { program, version, about }: ProgramText): string {
  const lines = [`${program} ${version}: ${about}`, "", `Usage: ${program} [--flag=value ...]`, ""];
  for (const [name, flag] of Object.entries(table).sort(([a], [b]) => a < b ? -1 : 1)) {
    const word = flag.value ?? (flag.type === "enum" ? flag.values.join("|") : flag.type.toUpperCase());
    lines.push(`  --${name}${flag.type === "boolean" ? "[=true|false]" : `=${word}`}`);
    lines.push(`      ${flag.help}`);
    lines.push(`      Variable ${envName(name)}; ${defaultText(flag)}.`);
  }
  lines.push("  --help", "      This text.", "  --version", "      The version.");
  return lines.join("\n");
}

function defaultText(flag: Flag): string {
  if (flag.default === undefined) return flag.required ? "required" : "no default";
  if (flag.type === "duration") return `default ${formatDuration(flag.default)}`;
  if (flag.type === "list") return flag.default.length ? `default ${flag.default.join(",")}` : "default none";
  return `default ${flag.default === "" ? "empty" : flag.default}`;
}

/** The name that differs least, if that is little. */
function nearest(name: string, names: readonly string[]): string | undefined {
  let best: { name: string; distance: number } | undefined;
  for (const each of names) {
    const distance = editDistance(name, each);
    if (distance <= 3 && (!best || distance < best.distance)) best = { name: each, distance };
  }
  return best?.name;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}

/** {@linkcode parseFlags} for a `main`: prints and exits by itself. */
export function flagsOrExit<T extends FlagTable>(
  table: T,
  options: Parameters<typeof parseFlags<T>>[1],
): FlagValues<T> {
  const parsed = parseFlags(table, options);
  if (!parsed.exit) return parsed.values;
  const { code, text } = parsed.exit;
  const stream = code === 0 ? Deno.stdout : Deno.stderr;
  stream.writeSync(new TextEncoder().encode(text + "\n"));
  Deno.exit(code);
}
