// deno-lint-ignore-file no-console
// Records what a real charon with 2,000 IKE_SAs answers to list-sas: tests/bench/vici_recording.gz, the packets from the
// first event to the response. Needs root; run it again only when the format of charon's answers has changed.
//   deno run -A tests/bench/vici_record.ts
import { connectVici } from "../../src/vici/session.ts";
import { section } from "../../src/vici/message.ts";
import { encodePacket, PACKET } from "../../src/vici/wire.ts";
import { run, startPair, withVici } from "../charon_pair.ts";

const COUNT = 2_000;
/** Some fail under the load. */
const SPARE = 200;
const subnet = (n: number): string => `10.${110 + (n >> 8)}.${n & 255}.1/32`;

await using pair = await startPair();
const batch = `${pair.folder}/addresses`;
await Deno.writeTextFile(
  batch,
  Array.from({ length: COUNT + SPARE }, (_, n) => `address add ${subnet(n)} dev lo\n`).join(""),
);
// Before it starts: it misses some when so many come at once.
await pair.theirs.kill();
await run("ip", "-n", pair.theirs.namespace, "-batch", batch);
await pair.theirs.start();

const connection = (n: number, ours: boolean) =>
  section({
    [`tunnel-${n}`]: {
      version: "2",
      mobike: "no",
      encap: n % 2 === 0 ? "yes" : "no",
      local_addrs: [ours ? "192.0.2.1" : "192.0.2.2"],
      remote_addrs: [ours ? "192.0.2.2" : "192.0.2.1"],
      proposals: [n % 3 === 0 ? "aes256-sha256-x25519" : "aes256gcm16-prfsha384-x25519"],
      local: { auth: "psk", id: ours ? `gw${n}.example.net` : `partner${n}.example.com` },
      remote: { auth: "psk", id: ours ? `partner${n}.example.com` : `gw${n}.example.net` },
      children: {
        [`tunnel-${n}-net`]: {
          esp_proposals: [n % 3 === 0 ? "aes256-sha256" : "aes256gcm16"],
          local_ts: [ours ? "10.101.1.0/24" : subnet(n)],
          remote_ts: [ours ? subnet(n) : "10.101.1.0/24"],
        },
      },
    },
  });
for (const [charon, ours] of [[pair.theirs, false], [pair.ours, true]] as const) {
  await withVici(charon, async (session) => {
    await session.call("load-shared", section({ id: "k", type: "IKE", data: "recorded", owners: ["%any"] }));
    for (let n = 0; n < COUNT + SPARE; n++) await session.call("load-conn", connection(n, ours));
  });
}
let next = 0, up = 0, trying = 0;
const lanes = Array.from({ length: 4 }, async () => {
  await using session = await connectVici({ path: pair.ours.socket });
  while (next < COUNT + SPARE) {
    if (up === COUNT) {
      if (trying === 0) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
      continue;
    }
    const n = next++;
    up++; // taken ahead, so that no lane makes one too many
    trying++;
    const names = section({ ike: `tunnel-${n}`, child: `tunnel-${n}-net`, timeout: "20000" });
    try {
      await session.call("initiate", names, { timeoutMs: 30_000 });
    } catch {
      up--;
      await session.call("terminate", section({ ike: `tunnel-${n}`, force: "yes" })).catch(() => {});
    }
    trying--;
    if (n % 200 === 0) console.log(`${n} of ${COUNT}`);
  }
});
await Promise.all(lanes);

const socket = await Deno.connect({ transport: "unix", path: pair.ours.socket });
const packets: Uint8Array<ArrayBuffer>[] = [];
async function exactly(count: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count;) {
    const read = await socket.read(bytes.subarray(at));
    if (read === null) throw new Error("Cannot record: charon is gone");
    at += read;
  }
  return bytes;
}
async function packet(): Promise<Uint8Array<ArrayBuffer>> {
  const head = await exactly(4);
  const body = await exactly(new DataView(head.buffer).getUint32(0));
  const whole = new Uint8Array(4 + body.length);
  whole.set(head);
  whole.set(body, 4);
  return whole;
}
await socket.write(encodePacket(PACKET.eventRegister, "list-sa"));
await packet();
await socket.write(encodePacket(PACKET.commandRequest, "list-sas", new Map()));
do packets.push(await packet()); while (packets.at(-1)![4] === PACKET.event);
socket.close();
const file = await Deno.create(new URL("vici_recording.gz", import.meta.url));
await new Blob(packets).stream().pipeThrough(new CompressionStream("gzip")).pipeTo(file.writable);
console.log(`${packets.length - 1} IKE_SAs`);
