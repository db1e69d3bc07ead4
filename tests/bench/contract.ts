/** What a bench measured: ours and the peer's, in the same run. */
export interface Measured {
  readonly unit: string;
  readonly ours: number;
  readonly peerName: string;
  readonly peer: number;
  /** Above 1: ours is better. */
  readonly ratio: number;
}

/** One bench, a module of this folder. */
export interface Bench {
  readonly name: string;
  /** The least ratio that we accept. */
  readonly atLeast: number;
  /** Rejects where it can't be measured; progress goes to `note`. */
  run(note: (line: string) => void): Promise<Measured>;
}

/** Where built peers are kept, outside the tree. */
export const CACHE: string = (Deno.env.get("IPSEC_OPERATOR_CACHE") ??
  `${Deno.env.get("HOME") ?? "/root"}/.cache/ipsec-operator`) + "/bench";

/** The middle of `values`. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Runs a command and gives its standard output; rejects with its standard error. */
export async function output(
  command: string,
  { args, cwd, env }: { args: readonly string[]; cwd?: string; env?: Record<string, string> },
): Promise<string> {
  const result = await new Deno.Command(command, {
    args: [...args],
    stdin: "null",
    ...(cwd === undefined ? {} : { cwd }),
    ...(env === undefined ? {} : { env }),
  }).output();
  const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
  if (!result.success) throw new Error(`Cannot run ${command} ${args.join(" ")}: ${text(result.stderr)}`);
  return text(result.stdout);
}
