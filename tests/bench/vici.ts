import { type Bench, CACHE, median, output } from "./contract.ts";

/** Rounds take turns, so that a busy moment of the machine meets both. */
const ROUNDS = 2;
/** govici loses events where its two threads do not both get a processor: all three processes go ahead of others. */
const AHEAD = ["-n", "-15"];
const here = import.meta.dirname ?? ".";

/** What one reading process prints. */
interface Reading {
  readonly ms: readonly number[];
  readonly checksum: string;
  readonly strings: number;
  /** Readings that lost events and were repeated; ours never does. */
  readonly lossy?: number;
}

/** Builds govici's side and the replaying server; gives their paths. */
async function build(): Promise<{ peer: string; replay: string }> {
  await Deno.mkdir(CACHE, { recursive: true });
  const env = { PATH: `${Deno.env.get("PATH") ?? ""}:/usr/local/go/bin`, CGO_ENABLED: "0" };
  const cwd = `${here}/govici`;
  const [peer, replay] = [`${CACHE}/govici`, `${CACHE}/vici-replay`];
  await output("go", { args: ["build", "-o", peer, "."], cwd, env });
  await output("go", { args: ["build", "-o", replay, "./replay"], cwd, env });
  return { peer, replay };
}

/**
 * Reads a recorded, streamed `list-sas` of 2,000 IKE_SAs through `connectVici()` and through govici, both from one
 * replaying socket, every key and value materialised: median of 20 after 5 warm-ups.
 */
export const vici: Bench = {
  name: "vici",
  atLeast: 1,
  async run(note) {
    note("building govici's side");
    const { peer, replay } = await build();
    const folder = await Deno.makeTempDir({ prefix: "ipo-bench-" });
    const socket = `${folder}/vici`;
    const deno = Deno.execPath();
    const server = new Deno.Command("nice", {
      args: [...AHEAD, replay, socket, `${here}/vici_recording.gz`],
      stdin: "null",
      stdout: "piped",
    }).spawn();
    try {
      const ready = server.stdout.getReader();
      await ready.read();
      const times: { ours: number[]; peer: number[] } = { ours: [], peer: [] };
      const checksums = new Set<string>();
      for (let round = 0; round < ROUNDS; round++) {
        for (const side of ["ours", "peer"] as const) {
          const command = side === "ours"
            ? [deno, "run", "-A", "--no-check", `${here}/vici_read.ts`]
            : [peer];
          const text = await output("nice", { args: [...AHEAD, ...command, socket] });
          const reading = JSON.parse(text) as Reading;
          note(
            `${side}: ${
              median(reading.ms).toFixed(2)
            } ms, ${reading.strings} strings, checksum ${reading.checksum}${
              reading.lossy ? `, ${reading.lossy} readings lost events and were repeated` : ""
            }`,
          );
          times[side].push(...reading.ms);
          checksums.add(`${reading.checksum} over ${reading.strings}`);
        }
      }
      if (checksums.size !== 1) {
        throw new Error(`Cannot compare: the checksums differ: ${[...checksums].join(", ")}`);
      }
      const [ours, theirs] = [median(times.ours), median(times.peer)];
      return { unit: "ms", ours, peerName: "govici 0.8.1", peer: theirs, ratio: theirs / ours };
    } finally {
      server.kill();
      await server.status;
      await server.stdout.cancel().catch(() => {});
      await Deno.remove(folder, { recursive: true });
    }
  },
};
