// deno-lint-ignore-file no-console -- a command: what it prints is its answer
// Imports go one way. This check reads every import of the tree and fails on one that points up or sideways.
//   deno run -A tests/checks/imports.ts
import { dirname, join, relative, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname ?? ".", "../..");

/** What each room may import. A room that is not listed may import nothing of ours. */
export const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  "src/process": [],
  "src/vici": [],
  "src/swanctl": [],
  "src/openstack": [],
  "src/kube": ["src/process"],
  "src/dataplane": [],
  "src/api": ["src/kube"],
  "src/ledger": ["src/api", "src/kube"],
  "src/charon": ["src/api", "src/vici", "src/swanctl", "src/process"],
  "src/gateway": [
    "src/api",
    "src/kube",
    "src/swanctl",
    "src/openstack",
    "src/dataplane",
    "src/ledger",
    "src/process",
  ],
  "status_agent": [
    "src/api",
    "src/kube",
    "src/vici",
    "src/swanctl",
    "src/charon",
    "src/dataplane",
    "src/process",
  ],
  "mod.ts": ["src/api", "src/gateway", "src/kube", "src/ledger", "src/openstack", "src/process"],
};

/** Packages that only some rooms may load: client-node alone adds some 90 MB to a process. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  "@kubernetes/client-node": ["src/kube/kubeconfig.ts", "src/kube/kubeconfig_test.ts"],
};

/** The room of a path: `src/<name>`, or its first part. */
function room(path: string): string {
  const parts = path.split("/");
  return parts[0] === "src" ? `src/${parts[1]}` : parts[0] ?? "";
}

async function* sources(dir: string): AsyncGenerator<string> {
  for await (const entry of Deno.readDir(dir)) {
    const path = join(dir, entry.name);
    if (entry.isDirectory && !entry.name.startsWith(".") && entry.name !== "node_modules") {
      yield* sources(path);
    } else if (entry.isFile && entry.name.endsWith(".ts")) yield path;
  }
}

/** Every import of `text`, as written. */
export function importsOf(text: string): string[] {
  const found: string[] = [];
  for (const match of text.matchAll(/^\s*(?:import|export)\b[^;"']*?["']([^"']+)["']/gm)) {
    found.push(match[1]!);
  }
  for (const match of text.matchAll(/\bimport\(\s*["']([^"']+)["']\s*\)/g)) found.push(match[1]!);
  return found;
}

/** The complaint about one import, or undefined when it is allowed. */
export function complaint(file: string, specifier: string): string | undefined {
  const from = room(file);
  if (!specifier.startsWith(".")) {
    const allowed = PACKAGES[specifier];
    return allowed && !allowed.includes(file)
      ? `${file}: imports ${specifier}, which only ${allowed[0]} may`
      : undefined;
  }
  const target = relative(ROOT, resolve(ROOT, dirname(file), specifier));
  // The version.
  if (target === "deno.json" && (from === "mod.ts" || from === "status_agent")) return undefined;
  const to = room(target);
  if (to === from || (file.endsWith("_test.ts") && to === "tests")) return undefined;
  if (ALLOWED[from]?.includes(to)) return undefined;
  return `${file}: imports ${target}; ${from} may import only ${
    ALLOWED[from]?.join(", ") || "nothing of ours"
  }`;
}

if (import.meta.main) {
  const problems: string[] = [];
  let files = 0;
  for (const top of ["src", "status_agent", "mod.ts"]) {
    const paths = top.endsWith(".ts") ? [join(ROOT, top)] : await Array.fromAsync(sources(join(ROOT, top)));
    for (const path of paths) {
      files++;
      const file = relative(ROOT, path);
      for (const specifier of importsOf(await Deno.readTextFile(path))) {
        const problem = complaint(file, specifier);
        if (problem) problems.push(problem);
      }
    }
  }
  if (files === 0) problems.push("Cannot check imports: no source file found");
  for (const problem of problems.sort()) console.error(problem);
  Deno.exit(problems.length ? 1 : 0);
}
