// A socket that answers every list-sas with the recording. `deno run -A vici_replay.ts SOCKET`; prints a line when it listens.
import { encodePacket, PACKET, PacketBuffer } from "../../src/vici/wire.ts";

const [path] = Deno.args;
const packed = await Deno.open(new URL("vici_recording.gz", import.meta.url));
const recording = new Uint8Array(
  await new Response(packed.readable.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer(),
);

async function serve(connection: Deno.Conn): Promise<void> {
  const write = async (bytes: Uint8Array): Promise<void> => {
    for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
  };
  const buffer = new PacketBuffer();
  for (
    let count = await connection.read(buffer.room());
    count !== null;
    count = await connection.read(buffer.room())
  ) {
    buffer.filled(count);
    for (let packet = buffer.take(); packet !== undefined; packet = buffer.take()) {
      await write(packet.type === PACKET.commandRequest ? recording : encodePacket(PACKET.eventConfirm));
    }
  }
  connection.close();
}

const listener = Deno.listen({ transport: "unix", path: path! });
await Deno.stdout.write(new TextEncoder().encode("listening\n"));
for await (const connection of listener) serve(connection).catch(() => {});
