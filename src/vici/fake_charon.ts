import { section, type ViciSection } from "./message.ts";
import { encodePacket, PACKET, type Packet, PacketBuffer } from "./wire.ts";

/** One client of a fake charon. */
export interface FakeClient {
  /** Raw bytes, for what no real daemon would send. */
  write(bytes: Uint8Array): Promise<void>;
  /** An event, whether it is registered or not. */
  event(name: string, message: ViciSection): Promise<void>;
  close(): void;
}

/** What a fake charon does with one packet; the default answers are in `startFakeCharon()`. */
export type FakeHandler = (
  packet: Packet,
  client: FakeClient,
) => Promise<ViciSection | "unknown" | undefined> | ViciSection | "unknown" | undefined;

/** A daemon for tests, on a unix socket in a folder of its own. */
export interface FakeCharon extends AsyncDisposable {
  readonly path: string;
  /** Every packet that came, in order: `request list-sas`, `register log`, … */
  readonly seen: string[];
  readonly clients: ReadonlySet<FakeClient>;
  /** Closes the socket and every client, as a killed daemon. */
  kill(): void;
  /** Listens again at the same path. */
  start(): void;
}

/**
 * Starts a fake charon. Registrations are confirmed, but for the event `nonsense`; each command goes to `handler`.
 */
export async function startFakeCharon(handler: FakeHandler): Promise<FakeCharon> {
  const folder = await Deno.makeTempDir({ prefix: "ipo-vici-" });
  const path = `${folder}/vici`;
  const seen: string[] = [];
  const clients = new Set<FakeClient>();
  let listener: Deno.UnixListener | undefined;

  const serve = async (connection: Deno.UnixConn): Promise<void> => {
    const buffer = new PacketBuffer();
    const write = async (bytes: Uint8Array): Promise<void> => {
      for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
    };
    const client: FakeClient = {
      write,
      event: (name, message) => write(encodePacket(PACKET.event, name, message)),
      close: () => {
        clients.delete(client);
        try {
          connection.close();
        } catch { /* closed already */ }
      },
    };
    clients.add(client);
    try {
      for (
        let count = await connection.read(buffer.room());
        count !== null;
        count = await connection.read(buffer.room())
      ) {
        buffer.filled(count);
        for (let packet = buffer.take(); packet !== undefined; packet = buffer.take()) {
          const kind = packet.type === PACKET.commandRequest
            ? "request"
            : packet.type === PACKET.eventRegister
            ? "register"
            : "unregister";
          seen.push(`${kind} ${packet.name}`);
          if (kind !== "request") {
            await write(encodePacket(packet.name === "nonsense" ? PACKET.eventUnknown : PACKET.eventConfirm));
            continue;
          }
          const answer = await handler(packet, client);
          if (answer === "unknown") await write(encodePacket(PACKET.commandUnknown));
          else if (answer !== undefined) await write(encodePacket(PACKET.commandResponse, undefined, answer));
        }
      }
    } catch { /* the client went away */ }
    client.close();
  };

  const start = (): void => {
    const socket = Deno.listen({ transport: "unix", path });
    listener = socket;
    void (async () => {
      try {
        for await (const connection of socket) void serve(connection);
      } catch { /* killed */ }
    })();
  };
  const kill = (): void => {
    listener?.close();
    listener = undefined;
    for (const client of [...clients]) client.close();
    try {
      Deno.removeSync(path);
    } catch { /* Deno removed it */ }
  };
  start();
  return {
    path,
    seen,
    clients,
    kill,
    start,
    async [Symbol.asyncDispose]() {
      kill();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** The answer of a command that succeeded. */
export const SUCCESS: ViciSection = section({ success: "yes" });
