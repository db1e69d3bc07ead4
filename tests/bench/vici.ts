import { type Bench, CACHE, median, output } from "./contract.ts";

/** Rounds take turns, so that a busy moment of the machine meets both. */
const ROUNDS = 2;
const here = import.meta.dirname ?? ".";

/** What one reading process prints. */
interface Reading {
  readonly ms: readonly number[];
  readonly checksum: string;
  readonly strings: number;
}

async function buildPeer(): Promise<string> {
  const binary = `${CACHE}/govici`;
  await Deno.mkdir(CACHE, { recursive: true });
  const path = `${Deno.env.get("PATH") ?? ""}:/usr/local/go/bin`;
  await output("go", {
    args: ["build", "-o", binary, "."],
    cwd: `${here}/govici`,
    env: { PATH: path, CGO_ENABLED: "0" },
  });
  return binary;
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
    const peer = await buildPeer();
    const folder = await Deno.makeTempDir({ prefix: "ipo-bench-" });
    const socket = `${folder}/vici`;
    const server = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", `${here}/vici_replay.ts`, socket],
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
          const text = side === "ours"
            ? await output(Deno.execPath(), {
              args: ["run", "-A", "--no-check", `${here}/vici_read.ts`, socket],
            })
            : await output(peer, { args: [socket] });
          const reading = JSON.parse(text) as Reading;
          note(
            `${side}: ${
              median(reading.ms).toFixed(2)
            } ms, ${reading.strings} strings, checksum ${reading.checksum}`,
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
