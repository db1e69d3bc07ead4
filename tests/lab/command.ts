// Running the machine's own tools, on this machine's network or in the namespace of a node or a peer.

/** Where a command runs: this machine, a named network namespace, or the network namespace of a process. */
export type Place = "machine" | `ns:${string}` | `pid:${number}`;

export interface RunOptions {
  readonly in?: Place;
  readonly input?: string;
  readonly env?: Record<string, string>;
  readonly signal?: AbortSignal;
  /** Default 30 s. The command is killed then. */
  readonly timeoutMs?: number;
}

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The argv that runs `argv` in a place. Only the network namespace changes. */
export function placed(argv: readonly string[], place: Place = "machine"): string[] {
  if (place.startsWith("ns:")) return ["ip", "netns", "exec", place.slice(3), ...argv];
  if (place.startsWith("pid:")) return ["nsenter", "-t", place.slice(4), "-n", ...argv];
  return [...argv];
}

/** Runs a command to its end and returns what came of it, whatever its exit code. */
export async function attempt(argv: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const [command, ...args] = placed(argv, options.in);
  const deadline = AbortSignal.timeout(options.timeoutMs ?? 30_000);
  const child = new Deno.Command(command!, {
    args,
    stdin: options.input === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
    ...(options.env ? { env: options.env } : {}),
    signal: options.signal ? AbortSignal.any([options.signal, deadline]) : deadline,
  }).spawn();
  const done = child.output();
  if (options.input !== undefined) {
    const writer = child.stdin.getWriter();
    // A command that ends without reading its input is no fault of the caller: its exit code tells.
    await writer.write(new TextEncoder().encode(options.input)).catch(() => {});
    await writer.close().catch(() => {});
  }
  const { code, stdout, stderr } = await done;
  const text = new TextDecoder();
  return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
}

/** Runs a command and returns its output. Throws with what it said on stderr when it fails. */
export async function run(argv: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await attempt(argv, options);
  if (code !== 0) {
    throw new Error(
      `Cannot run ${argv.join(" ")} in ${options.in ?? "machine"}: exit code ${code}: ${
        stderr.trim().slice(0, 500)
      }`,
    );
  }
  return stdout;
}

/**
 * Waits until `check` answers something truthy and returns it. Throws at the deadline, naming `what`, with the last
 * error if checks threw. `check` runs at least once.
 */
export async function until<T>(
  what: string,
  check: () => Promise<T> | T,
  options: { timeoutMs?: number; intervalMs?: number; signal?: AbortSignal } = {},
): Promise<NonNullable<T>> {
  const { timeoutMs = 20_000, intervalMs = 100, signal } = options;
  const end = performance.now() + timeoutMs;
  let last: unknown;
  while (true) {
    signal?.throwIfAborted();
    try {
      const value = await check();
      if (value) return value;
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (performance.now() >= end) {
      throw new Error(`Cannot wait any longer until ${what}: ${timeoutMs} ms have passed`, { cause: last });
    }
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}

/** Where the lab keeps its things, as tests/lab/env.sh has it. */
export const CACHE: string = Deno.env.get("IPSEC_OPERATOR_CACHE") ??
  `${Deno.env.get("XDG_CACHE_HOME") ?? `${Deno.env.get("HOME")}/.cache`}/ipsec-operator`;

/** The network namespace of a Kubernetes node of the lab (`node1`, `node2`). Throws while the node is down. */
export async function nodePlace(node: string): Promise<Place> {
  const pid = parseInt(await Deno.readTextFile(`${CACHE}/k8s/run/pids/${node}.init`));
  await Deno.stat(`/proc/${pid}/ns/net`);
  return `pid:${pid}`;
}
