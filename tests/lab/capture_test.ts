import assert from "node:assert/strict";
import { startCapture, type Wire } from "./capture.ts";
import { attempt, run } from "./command.ts";

/** A pair of namespaces joined by a wire. */
async function pair(): Promise<AsyncDisposable & { wires: Wire[] }> {
  for (const name of ["ipo-cap1", "ipo-cap2"]) await run(["ip", "netns", "add", name]);
  await run([
    "ip",
    "link",
    "add",
    "w",
    "netns",
    "ipo-cap1",
    "type",
    "veth",
    "peer",
    "name",
    "w",
    "netns",
    "ipo-cap2",
  ]);
  for (const [name, address] of [["ipo-cap1", "10.9.9.1/24"], ["ipo-cap2", "10.9.9.2/24"]] as const) {
    await run(["ip", "-n", name, "addr", "add", address, "dev", "w"]);
    await run(["ip", "-n", name, "link", "set", "w", "up"]);
  }
  return {
    wires: [
      { name: "one", place: "ns:ipo-cap1", device: "w", beaconTo: "10.9.9.2" },
      { name: "two", place: "ns:ipo-cap2", device: "any", beaconTo: "10.9.9.1" },
    ],
    async [Symbol.asyncDispose]() {
      for (const name of ["ipo-cap1", "ipo-cap2"]) await run(["ip", "netns", "del", name]);
    },
  };
}

const root = Deno.uid() === 0;

Deno.test(
  { name: "startCapture() shows every packet of every wire, and nothing else", ignore: !root },
  async () => {
    await using wired = await pair();
    await using capture = await startCapture("udp port 7777", { wires: wired.wires, payload: true });
    for (const port of [7777, 7778, 7777]) {
      const to = `UDP-SENDTO:10.9.9.2:${port}`;
      await attempt(["socat", "-u", "-", to], { in: "ns:ipo-cap1", input: `SECRET to ${port}` });
    }
    const { wires, packets } = await capture.stop();
    assert.deepEqual([wires["one"]?.length, wires["two"]?.length], [2, 2]);
    assert.ok(packets.every((packet) => packet.includes("SECRET to 7777")));
  },
);

Deno.test(
  { name: "startCapture() throws with tcpdump's words when a filter is wrong", ignore: !root },
  async () => {
    await using wired = await pair();
    await assert.rejects(startCapture("no such thing", { wires: wired.wires }), /syntax error/);
  },
);
