// Watches every wire of the lab at once, for tests that must show what is, and what is not, on it.
//
// A capture that sees nothing proves nothing by itself. So each wire is sent a beacon, a UDP packet to a port of its
// own that the filter lets through as well: start() waits until every tcpdump has shown one, stop() sends another and
// waits for it, so that everything sent before has been seen too (one wire's packets are shown in order). And a test
// that expects nothing shows with the same filter, on a packet it sends in clear on purpose, that it would see.

import { attempt, nodePlace, type Place, placed, until } from "./command.ts";

const BEACON_PORT = 65431;

export interface Wire {
  readonly name: string;
  readonly place: Place;
  /** A device, or `any`. */
  readonly device: string;
  /** Where a beacon sent from `place` passes the wire. */
  readonly beaconTo: string;
}

/** Both nodes (pods' wires end there), the router with every bridge and tap, the partner's WAN, the nodes' bridge. */
export async function labWires(): Promise<Wire[]> {
  const hasPartner = (await attempt(["ip", "-n", "ipo-partner", "link", "show", "wan"])).code === 0;
  const router = hasPartner ? "203.0.113.250" : "127.0.0.1";
  return [
    { name: "node1", place: await nodePlace("node1"), device: "any", beaconTo: "172.30.0.1" },
    { name: "node2", place: await nodePlace("node2"), device: "any", beaconTo: "172.30.0.1" },
    { name: "router", place: "ns:ipo-router", device: "any", beaconTo: router },
    ...(hasPartner
      ? [{ name: "partner", place: "ns:ipo-partner", device: "wan", beaconTo: "203.0.113.1" } as const]
      : []),
    { name: "bridge", place: "machine", device: "k8slab0", beaconTo: "172.30.0.11" },
  ];
}

export interface Captured {
  /** Wire → the packets it carried, one text each (tcpdump's line, with `payload` the bytes as ASCII below it). */
  readonly wires: Readonly<Record<string, readonly string[]>>;
  /** The packets of all wires, each after its wire's name. A packet is on several wires on its way. */
  readonly packets: readonly string[];
}

export interface Capture extends AsyncDisposable {
  /** Ends the capture and returns everything that was on the wires before this call. */
  stop(): Promise<Captured>;
  /** What has been shown so far; may lag. */
  readonly seen: () => Captured;
}

class Watcher {
  readonly packets: string[] = [];
  readonly beacons = new Set<string>();
  readonly wire: Wire;
  #child: Deno.ChildProcess;
  #reading: Promise<void>;
  #complaints: Promise<string>;
  #ended = false;

  constructor(wire: Wire, filter: string, payload: boolean) {
    this.wire = wire;
    const argv = placed([
      ...[
        "tcpdump",
        "-l",
        "-nn",
        "-A",
        "-i",
        wire.device,
        "--immediate-mode",
        ...(payload ? ["-s", "0"] : []),
      ],
      `(${filter}) or (udp dst port ${BEACON_PORT})`,
    ], wire.place);
    this.#child = new Deno.Command(argv[0]!, {
      args: argv.slice(1),
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    })
      .spawn();
    this.#complaints = new Response(this.#child.stderr).text();
    this.#reading = this.#read(payload).finally(() => this.#ended = true);
  }

  async #read(payload: boolean): Promise<void> {
    let rest = "";
    let current: "packet" | "beacon" = "packet";
    for await (const chunk of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const isHead = /^\d\d:\d\d:\d\d\.\d+ /.test(line);
        if (isHead) current = line.includes(`.${BEACON_PORT}: UDP`) ? "beacon" : "packet";
        if (current === "beacon") {
          const mark = line.match(/beacon-[0-9a-f-]{36}/);
          if (mark) this.beacons.add(mark[0]);
        } else if (isHead) this.packets.push(line);
        else if (payload && this.packets.length) this.packets[this.packets.length - 1] += `\n${line}`;
      }
    }
  }

  /** Sends beacons until one is shown. */
  async beacon(): Promise<void> {
    const mark = `beacon-${crypto.randomUUID()}`;
    const { place, beaconTo, name } = this.wire;
    await until(`a beacon is seen on ${name}`, async () => {
      // Again each time: a tcpdump that is just starting has missed the ones before.
      await attempt(["socat", "-u", "-", `UDP-SENDTO:${beaconTo}:${BEACON_PORT}`], {
        in: place,
        input: mark,
      });
      return this.#ended || this.beacons.has(mark);
    }, { timeoutMs: 15_000, intervalMs: 50 });
    if (!this.beacons.has(mark)) throw new Error(`Cannot watch ${name}: tcpdump has ended`);
  }

  async end(): Promise<void> {
    try {
      this.#child.kill("SIGTERM");
    } catch {
      // It has ended already; why is told below.
    }
    await this.#child.status;
    await this.#reading;
  }

  /** What tcpdump said on stderr; after end(). */
  complaints(): Promise<string> {
    return this.#complaints;
  }
}

/**
 * Starts to watch for packets that match a pcap filter. Returns once every wire is proved to be seen. Throws with
 * tcpdump's own words when a wire can't be watched.
 */
export async function startCapture(
  filter: string,
  options: { wires?: readonly Wire[]; payload?: boolean } = {},
): Promise<Capture> {
  const watchers = (options.wires ?? await labWires()).map((wire) =>
    new Watcher(wire, filter, options.payload ?? false)
  );
  let ended = false;
  const end = async () => {
    if (ended) return;
    ended = true;
    await Promise.all(watchers.map((watcher) => watcher.end()));
  };
  const seen = (): Captured => ({
    wires: Object.fromEntries(watchers.map((watcher) => [watcher.wire.name, [...watcher.packets]])),
    packets: watchers.flatMap((watcher) => watcher.packets.map((packet) => `${watcher.wire.name} ${packet}`)),
  });
  const beacons = async () => {
    try {
      await Promise.all(watchers.map((watcher) => watcher.beacon()));
    } catch (cause) {
      await end();
      const said = await Promise.all(watchers.map((watcher) => watcher.complaints()));
      throw new Error(`Cannot watch every wire for ${filter}: ${said.join(" ").trim()}`, { cause });
    }
  };
  await beacons();
  return {
    seen,
    async stop() {
      await beacons();
      await end();
      return seen();
    },
    [Symbol.asyncDispose]: end,
  };
}

/** Traffic of the tunnels' inner networks outside of ESP: the pool's service CIDRs and the partner's LANs. */
export const CLEAR = "(net 192.168.76.0/22 or net 100.64.0.0/10) and not arp";

/** ESP in UDP: 4500 but not IKE (a non-ESP marker of four zero bytes) and not a keepalive of one byte (RFC 3948). */
export const ESP_IN_UDP = "udp port 4500 and udp[8:4] != 0 and udp[4:2] > 9";

/**
 * The positive control of a capture by CLEAR that saw nothing: sends a packet of the inner networks in clear on purpose,
 * from a node, and says whether the same filter shows it. The packet dies at the next hop.
 */
export async function showsClear(): Promise<boolean> {
  await using capture = await startCapture(CLEAR);
  await attempt(["socat", "-u", "-", "UDP-SENDTO:192.168.77.10:9,ip-ttl=1"], {
    in: await nodePlace("node1"),
    input: "in clear",
  });
  return (await capture.stop()).packets.length > 0;
}
