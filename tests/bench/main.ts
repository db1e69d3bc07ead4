// deno-lint-ignore-file no-console
// Ratios against a peer that is measured in the same run; above 1, ours is better.
//   deno task bench [--only NAME] [--json]
import { parseArgs } from "node:util";
import { agent } from "./agent.ts";
import type { Bench } from "./contract.ts";
import { vici } from "./vici.ts";

const BENCHES: readonly Bench[] = [vici, agent];

const { values } = parseArgs({
  args: Deno.args,
  options: { only: { type: "string", multiple: true }, json: { type: "boolean" } },
});
const unknown = (values.only ?? []).filter((name) => !BENCHES.some((bench) => bench.name === name));
if (unknown.length > 0) {
  console.error(
    `Cannot run the bench ${unknown.join()}: there are ${BENCHES.map((bench) => bench.name).join(", ")}`,
  );
  Deno.exit(2);
}
const results: Record<string, unknown>[] = [];
let failed = false;
for (const bench of BENCHES.filter(({ name }) => values.only?.includes(name) ?? true)) {
  try {
    const { unit, ours, peerName, peer, ratio } = await bench.run((line) =>
      console.error(`${bench.name}: ${line}`)
    );
    results.push({ name: bench.name, unit, ours, peerName, peer, ratio });
    const good = ratio >= bench.atLeast;
    failed ||= !good;
    if (!values.json) {
      console.log(
        `${bench.name}: ours ${ours.toFixed(2)} ${unit}, ${peerName} ${peer.toFixed(2)} ${unit}: ratio ${
          ratio.toFixed(2)
        }${good ? "" : `, less than ${bench.atLeast}`}`,
      );
    }
  } catch (error) {
    failed = true;
    console.error(`${bench.name}: ${error instanceof Error ? error.message : error}`);
  }
}
if (values.json) console.log(JSON.stringify({ results }));
Deno.exit(failed ? 1 : 0);
