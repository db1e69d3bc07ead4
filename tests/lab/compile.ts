// deno-lint-ignore-file no-console
// Both executables into dist/, by `deno compile`.
//   deno task compile [--force]
// The runtime that is put into them comes from Deno's own download, or, where `./run` found that this cannot be reached,
// from the pair deno + denort of an older release in the cache. What was compiled from the same sources is kept.
import { createHash } from "node:crypto";
import { dirname, join, relative, resolve } from "node:path";

const ROOT = join(import.meta.dirname ?? ".", "../..");
const FALLBACK_RELEASE = "2.6.10";
const SOURCES = ["deno.json", "deno.lock", "mod.ts", "src", "status_agent", "tests/lab/compile.ts"];

export interface Target {
  /** Path of the executable; relative ones are taken from the root of the tree, as entry's are. */
  readonly out: string;
  readonly entry: string;
  /**
   * Permission flags that are baked in. Narrower ones than these are not portable: `--allow-net=unix:PATH`, for one, is
   * needed by Deno 2.9 and refused by 2.6.
   */
  readonly flags: readonly string[];
  /**
   * Whether the modules are put into one minified file first: it takes some 10 MiB less memory than the graph (measured),
   * at the price of stack traces that name no files of ours.
   */
  readonly bundle?: boolean;
}

const TARGETS: readonly Target[] = [
  {
    out: "dist/controller",
    entry: "mod.ts",
    // Which API server, which OpenStack and which files (kubeconfig, certificates) is configuration. It writes and runs nothing.
    flags: ["--allow-net", "--allow-read", "--allow-env", "--allow-sys"],
  },
  {
    out: "dist/status-agent",
    entry: "status_agent/main.ts",
    // Deno lets nothing less read /proc (net.ipv4.ip_forward, a process's network namespace). The container is the fence.
    // It runs once for each gateway and mostly waits: no JIT, a small young generation, no threads of V8's own, and the
    // collector within its reach, since V8 lets the garbage of a mostly idle process lie. Together with the bundle that
    // is 51 MiB instead of 68 (measured; `deno task bench --only agent`).
    flags: [
      "--allow-all",
      "--no-code-cache",
      "--v8-flags=--lite-mode,--max-semi-space-size=1,--single-threaded,--expose-gc,--optimize-for-size",
    ],
    bundle: true,
  },
];

export interface Compiler {
  /** The way it was got, for people. */
  readonly name: string;
  readonly deno: string;
  readonly env: Readonly<Record<string, string>>;
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

/** The Deno that compiles, and how it finds its denort. */
export async function findCompiler(): Promise<Compiler> {
  const home = Deno.env.get("XDG_CACHE_HOME") ?? join(Deno.env.get("HOME") ?? "/root", ".cache");
  const cache = Deno.env.get("IPSEC_OPERATOR_CACHE") ?? join(home, "ipsec-operator");
  const reach = await Deno.readTextFile(join(cache, "reach/denort")).catch(() => "");
  const pair = join(cache, `denort-${FALLBACK_RELEASE}`);
  if (reach.trim() !== "yes" && await exists(join(pair, "denort"))) {
    return {
      name:
        `Deno ${FALLBACK_RELEASE} with a denort from a package registry (the official download was not reachable)`,
      deno: join(pair, "deno"),
      // Its main thread overflows its stack on a graph of this size otherwise.
      env: { DENORT_BIN: join(pair, "denort"), RUST_MIN_STACK: "33554432" },
    };
  }
  return {
    name: `Deno ${Deno.version.deno} with its own download of denort`,
    deno: Deno.execPath(),
    env: {},
  };
}

async function* filesOf(path: string): AsyncGenerator<string> {
  if ((await Deno.stat(path)).isFile) {
    yield path;
    return;
  }
  const entries: string[] = [];
  for await (const entry of Deno.readDir(path)) entries.push(entry.name);
  for (const name of entries.sort()) {
    if (!name.endsWith("_test.ts")) yield* filesOf(join(path, name));
  }
}

/** A digest of everything that shapes an executable. */
async function keyOf(target: Target, compiler: Compiler): Promise<string> {
  const hash = createHash("sha256").update(JSON.stringify([target, compiler]));
  for (const source of SOURCES) {
    for await (const file of filesOf(join(ROOT, source))) {
      hash.update(`\0${relative(ROOT, file)}\0`).update(await Deno.readFile(file));
    }
  }
  return hash.digest("hex");
}

async function deno(executable: string, { args, env = {} }: {
  args: readonly string[];
  env?: Readonly<Record<string, string>>;
}): Promise<void> {
  const { code } = await new Deno.Command(executable, {
    args: [...args],
    cwd: ROOT,
    env: { DENO_NO_UPDATE_CHECK: "1", ...env },
    stdin: "null",
    stdout: "inherit",
    stderr: "inherit",
  }).output();
  if (code !== 0) throw new Error(`Cannot run ${executable} ${args.join(" ")}: exit code ${code}`);
}

/** Compiles one executable. Throws when the compiler fails; what it said is on stderr. */
export async function compile(target: Target, compiler: Compiler): Promise<void> {
  const out = resolve(ROOT, target.out);
  await Deno.mkdir(dirname(out), { recursive: true });
  const source = target.bundle ? ["--no-config", `${out}.js`] : ["--frozen", target.entry];
  if (target.bundle) {
    // Always by the pinned release: the older one's bundler is an experiment.
    await deno(Deno.execPath(), {
      args: ["bundle", "--quiet", "--frozen", "--minify", "--output", `${out}.js`, target.entry],
    });
  }
  await deno(compiler.deno, {
    args: ["compile", "--quiet", "--no-prompt", ...target.flags, "--output", out, ...source],
    env: compiler.env,
  });
}

async function main(): Promise<void> {
  const compiler = await findCompiler();
  console.info(`compiled by ${compiler.name}`);
  for (const target of TARGETS) {
    const started = performance.now();
    const key = await keyOf(target, compiler);
    const keyFile = join(ROOT, `${target.out}.key`);
    const kept = !Deno.args.includes("--force") && await exists(join(ROOT, target.out)) &&
      await Deno.readTextFile(keyFile).catch(() => "") === key;
    if (!kept) {
      await compile(target, compiler);
      await Deno.writeTextFile(keyFile, key);
    }
    const { size } = await Deno.stat(join(ROOT, target.out));
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    console.info(`${target.out}: ${Math.round(size / 1e6)} MB, ${kept ? "unchanged" : `${seconds} s`}`);
  }
}

if (import.meta.main) await main();
