// Two real charons in network namespaces of their own, joined by a veth: ESP in user space, so any kernel will do.
// Needs root and the packages strongswan-swanctl, charon-systemd, libcharon-extra-plugins.
import assert from "node:assert/strict";
import { connectVici } from "../src/vici/session.ts";
import type { ViciSession } from "../src/vici/contract.ts";
import { pollSas } from "../src/charon/poll.ts";
import type { IkeSa } from "../src/charon/sa_model.ts";

/** How many tunnels a pair has subnets for: 10.101.N.0/24 here, 10.102.N.0/24 there, N from 1. */
export const SUBNETS = 40;

/** Runs a command to its end; rejects with its standard error when it fails. */
export async function run(...command: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(command[0]!, {
    args: command.slice(1),
    stdin: "null",
  }).output();
  const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
  if (!success) throw new Error(`Cannot run ${command.join(" ")}: ${text(stderr)}`);
  return text(stdout);
}

/** Waits for `condition` to give something true; fails after `seconds`. */
export async function eventually<T>(
  what: string,
  seconds: number,
  condition: () => Promise<T> | T,
): Promise<T> {
  const deadline = performance.now() + seconds * 1_000;
  let last: unknown;
  while (true) {
    try {
      const result = await condition();
      if (result) return result;
    } catch (error) {
      last = error;
    }
    if (performance.now() > deadline) {
      assert.fail(`${what}: not within ${seconds} s${last ? ` (${last})` : ""}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** One charon in its namespace. */
export interface Charon {
  readonly namespace: string;
  readonly socket: string;
  readonly logFile: string;
  /** Starts the daemon and waits for its socket. */
  start(): Promise<void>;
  /** Kills it with -9, as nothing that has time to say goodbye. */
  kill(): Promise<void>;
  /** Sends a signal, e.g. SIGSTOP. */
  signal(signal: Deno.Signal): void;
  readonly pid: number;
}

/** A pair; disposing it ends both and removes the namespaces. */
export interface Pair extends AsyncDisposable {
  readonly folder: string;
  /** The one that the test drives, at 192.0.2.1. */
  readonly ours: Charon;
  /** The partner, at 192.0.2.2. */
  readonly theirs: Charon;
}

const conf = (folder: string, side: string): string => `
charon-systemd {
  load = random nonce openssl aes sha1 sha2 hmac kdf gcm curve25519 kernel-libipsec kernel-netlink socket-default vici counters
  retransmit_tries = 2
  retransmit_timeout = 1
  block_threshold = 0
  cookie_threshold = 0
  ikesa_table_size = 1024
  plugins {
    vici {
      socket = unix://${folder}/${side}.vici
    }
    kernel-libipsec {
      load = yes
      allow_peer_ts = yes
    }
    kernel-netlink {
      fwmark = !0x42
    }
    socket-default {
      fwmark = 0x42
    }
  }
  filelog {
    f {
      path = ${folder}/${side}.log
      default = 1
      flush_line = yes
    }
  }
}
swanctl {
  socket = unix://${folder}/${side}.vici
}
`;

async function charon(folder: string, side: string, namespace: string): Promise<Charon> {
  const socket = `${folder}/${side}.vici`;
  await Deno.writeTextFile(`${folder}/${side}.conf`, conf(folder, side));
  let child: Deno.ChildProcess | undefined;
  const start = async (): Promise<void> => {
    await Deno.remove(socket).catch(() => {});
    child = new Deno.Command("ip", {
      args: [
        "netns",
        "exec",
        namespace,
        "unshare",
        "-m",
        "sh",
        "-c",
        `mount -t tmpfs t /run; STRONGSWAN_CONF=${folder}/${side}.conf exec /usr/sbin/charon-systemd`,
      ],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    await eventually(`charon in ${namespace} answers`, 20, async () => {
      await using session = await connectVici({ path: socket });
      return await session.call("version");
    });
  };
  const kill = async (): Promise<void> => {
    const dying = child;
    child = undefined;
    if (dying === undefined) return;
    try {
      dying.kill("SIGKILL");
    } catch { /* it is dead */ }
    await dying.status;
  };
  return {
    namespace,
    socket,
    logFile: `${folder}/${side}.log`,
    start,
    kill,
    signal: (signal) => child?.kill(signal),
    get pid() {
      return child?.pid ?? 0;
    },
  };
}

/** Makes the namespaces of a pair and starts both daemons. */
export async function startPair(): Promise<Pair> {
  const folder = await Deno.makeTempDir({ prefix: "ipo-ct-" });
  const id = folder.slice(-6).toLowerCase();
  const [a, b] = [`ipo-ct-${id}-a`, `ipo-ct-${id}-b`];
  const remove = async (): Promise<void> => {
    for (const namespace of [a, b]) await run("ip", "netns", "del", namespace).catch(() => {});
    await Deno.remove(folder, { recursive: true });
  };
  const ours = await charon(folder, "ours", a);
  const theirs = await charon(folder, "theirs", b);
  const end = async (): Promise<void> => {
    await Promise.all([ours.kill(), theirs.kill()]);
    await remove();
  };
  try {
    for (const [namespace, net] of [[a, 101], [b, 102]] as const) {
      await run("ip", "netns", "add", namespace);
      const addresses = Array.from(
        { length: SUBNETS },
        (_, i) => `address add 10.${net}.${i + 1}.1/32 dev lo`,
      );
      const batch = `${folder}/batch`;
      await Deno.writeTextFile(batch, ["link set lo up", ...addresses, ""].join("\n"));
      await run("ip", "-n", namespace, "-batch", batch);
    }
    await run("ip", "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b);
    await run("ip", "-n", a, "address", "add", "192.0.2.1/24", "dev", "eth0");
    await run("ip", "-n", b, "address", "add", "192.0.2.2/24", "dev", "eth0");
    for (const namespace of [a, b]) await run("ip", "-n", namespace, "link", "set", "eth0", "up");
    await Promise.all([ours.start(), theirs.start()]);
  } catch (error) {
    await end();
    throw error;
  }
  return { folder, ours, theirs, [Symbol.asyncDispose]: end };
}

/** A short-lived session to one of them. */
export async function withVici<T>(charon: Charon, body: (session: ViciSession) => Promise<T>): Promise<T> {
  await using session = await connectVici({ path: charon.socket });
  return await body(session);
}

/** The SAs of one of them. */
export function sasOf(charon: Charon): Promise<IkeSa[]> {
  return withVici(charon, (session) => pollSas(session));
}
