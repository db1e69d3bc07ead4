// The one contract with the machine: run a command, get what it said. Everything in this folder is built on it.

/** What a command left behind. */
export interface ExecResult {
  /** Exit code; 127 when there is no such command, 124 when it ran out of time. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a command is run. */
export interface ExecOptions {
  /** Text for its standard input. */
  readonly stdin?: string;
  readonly signal?: AbortSignal;
  /** Deadline in milliseconds, 10,000 by default. */
  readonly timeoutMs?: number;
}

/** Runs a command (`ip`, `nft`, `conntrack`) and resolves with its result, whatever its exit code; never rejects. */
export type Exec = (argv: readonly string[], options?: ExecOptions) => Promise<ExecResult>;

/** An {@linkcode Exec} on this machine. Names are looked up in the PATH of this process. */
export function createExec(): Exec {
  return async ([name, ...args], { stdin, signal, timeoutMs = 10_000 } = {}) => {
    const limit = AbortSignal.timeout(timeoutMs);
    try {
      const child = new Deno.Command(name!, {
        args,
        stdin: stdin === undefined ? "null" : "piped",
        stdout: "piped",
        stderr: "piped",
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      }).spawn();
      const written = stdin === undefined ? undefined : feed(child.stdin, stdin);
      const { code, stdout, stderr } = await child.output();
      await written;
      const text = new TextDecoder();
      const late = limit.aborted ? `${name} did not end within ${timeoutMs} ms\n` : "";
      return { code: late ? 124 : code, stdout: text.decode(stdout), stderr: late + text.decode(stderr) };
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      return { code: 127, stdout: "", stderr: `Cannot run ${name}: ${detail}` };
    }
  };
}

/** A command that ends before it has read everything breaks the pipe: its exit code tells, not this. */
async function feed(stream: WritableStream<Uint8Array>, text: string): Promise<void> {
  try {
    const writer = stream.getWriter();
    await writer.write(new TextEncoder().encode(text));
    await writer.close();
  } catch {
    // The exit code and stderr say why.
  }
}

/** Runs a command that must succeed and gives its standard output. Throws Error with what it said when it does not. */
export async function runOrThrow(
  exec: Exec,
  argv: readonly string[],
  options?: ExecOptions,
): Promise<string> {
  const { code, stdout, stderr } = await exec(argv, options);
  if (code === 0) return stdout;
  const said = (stderr.trim() || stdout.trim()).split("\n").slice(0, 5).join("; ");
  throw new Error(`Cannot run ${argv.join(" ")}: exit code ${code}: ${said || "it said nothing"}`);
}
