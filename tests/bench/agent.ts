import { renderAgentConfig } from "../../src/api/agent_config.ts";
import { swanctlSection } from "../../src/swanctl/model.ts";
import { renderSwanctl } from "../../src/swanctl/render.ts";
import { section } from "../../src/vici/message.ts";
import { eventually, type Pair, run, startPair, withVici } from "../charon_pair.ts";
import { type Bench, CACHE, median, output } from "./contract.ts";

const ROOT = new URL("../..", import.meta.url).pathname;
const TUNNELS = 8;
const WAIT_MS = 60_000;
const SCRAPE_MS = 5_000;

/** The proportional share of memory of a process, in MiB. */
async function pss(pid: number): Promise<number> {
  const text = await Deno.readTextFile(`/proc/${pid}/smaps_rollup`);
  return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1]) / 1024;
}

/**
 * A program that does nothing but wait, compiled with the runtime of our executables: the choice is that of
 * tests/lab/compile.ts.
 */
async function buildIdle(): Promise<string> {
  await Deno.mkdir(CACHE, { recursive: true });
  const entry = `${CACHE}/idle.ts`, out = `${CACHE}/idle`;
  await Deno.writeTextFile(entry, "await new Promise(() => setInterval(() => {}, 2 ** 30));\n");
  const pair = `${CACHE}/../denort-2.6.10`;
  const reach = await Deno.readTextFile(`${CACHE}/../reach/denort`).catch(() => "");
  const old = reach.trim() !== "yes" && await Deno.stat(`${pair}/denort`).then(() => true, () => false);
  await output(old ? `${pair}/deno` : Deno.execPath(), {
    args: ["compile", "--quiet", "--no-prompt", "--no-config", "--output", out, entry],
    env: { DENO_NO_UPDATE_CHECK: "1", ...(old ? { DENORT_BIN: `${pair}/denort` } : {}) },
  });
  return out;
}

/**
 * Takes a file out of the page cache: how much of one is mapped around a fault depends on how it came there (just
 * written: in larger pieces, some 20 MiB more), and both have to come from the disk.
 */
async function evict(path: string): Promise<void> {
  await output("sync", { args: [path] });
  await output("dd", { args: [`if=${path}`, "iflag=nocache", "count=0", "status=none"] });
}

/** Both sides' tunnels, as the controller renders them for ours. */
async function configure(pair: Pair, { config, psk }: { config: string; psk: string }): Promise<void> {
  const names = Array.from({ length: TUNNELS }, (_, n) => `partner-${n + 1}`);
  const side = (n: number, ours: boolean) => ({
    version: 2,
    mobike: false,
    encap: true,
    local_addrs: [ours ? "192.0.2.1" : "192.0.2.2"],
    remote_addrs: [ours ? "192.0.2.2" : "192.0.2.1"],
    proposals: ["aes128gcm16-prfsha256-x25519"],
    local: { auth: "psk", id: ours ? "203.0.113.1" : `partner-${n}.example` },
    remote: { auth: "psk", id: ours ? `partner-${n}.example` : "203.0.113.1" },
    children: {
      [`partner-${n}`]: {
        esp_proposals: ["aes128gcm16"],
        local_ts: [ours ? "10.101.1.0/24" : `10.102.${n}.0/24`],
        remote_ts: [ours ? `10.102.${n}.0/24` : "10.101.1.0/24"],
        start_action: ours ? "start" : "none",
      },
    },
  });
  const connections = (ours: boolean) =>
    Object.fromEntries(names.map((name, i) => [name, side(i + 1, ours)]));
  await Deno.writeTextFile(
    `${config}/swanctl.conf`,
    renderSwanctl(swanctlSection({ connections: connections(true) })),
  );
  const link = await run("ip", "-n", pair.ours.namespace, "-j", "link", "show", "net1");
  await Deno.writeTextFile(
    `${config}/agent.json`,
    renderAgentConfig({
      gateway: "bench",
      namespace: "bench",
      mode: "nat",
      dataPlane: "libipsec",
      port: {
        fixedIP: "192.0.2.1",
        prefixLength: 24,
        gatewayIP: "192.0.2.254",
        macAddress: JSON.parse(link)[0].address,
        mtu: 1500,
      },
      serviceCIDR: "10.101.1.0/24",
      snatAddress: "10.101.1.1",
      psk: { key: "psk" },
      tunnels: names.map((name) => ({ name })),
    }),
  );
  await Deno.writeTextFile(`${psk}/psk`, "bench\n");
  await withVici(pair.theirs, async (session) => {
    await session.call(
      "load-shared",
      section({ id: "k", type: "IKE", data: "bench", owners: ["203.0.113.1"] }),
    );
    for (const [name, one] of Object.entries(connections(false))) {
      await session.call(
        "load-conn",
        section({ [name]: { ...one, mobike: "no", encap: "yes", version: "2" } }),
      );
    }
  });
}

/**
 * The memory of the compiled agent beside a real charon with eight established tunnels, its metrics scraped, 60 s
 * after its start, against a program of one line compiled with the same runtime, at the same age.
 */
export const agent: Bench = {
  name: "agent",
  atLeast: 1 / 1.2,
  async run(note) {
    const idleBinary = await buildIdle();
    for (const path of [idleBinary, `${ROOT}/dist/status-agent`]) await evict(path);
    await using pair = await startPair();
    await pair.ours.kill();
    const { namespace } = pair.ours;
    const folder = await Deno.makeTempDir({ dir: "/run", prefix: "ipo-bench-" });
    const [runFolder, config, psk] = [`${folder}/run`, `${folder}/config`, `${folder}/psk`];
    for (const path of [runFolder, config, psk]) await Deno.mkdir(path);
    const inside = (...command: string[]): Deno.ChildProcess =>
      new Deno.Command("ip", {
        args: ["netns", "exec", namespace, ...command],
        stdin: "null",
        stdout: "null",
        stderr: "null",
      }).spawn();
    const children: Deno.ChildProcess[] = [];
    try {
      await run("ip", "-n", namespace, "link", "set", "eth0", "down");
      await run("ip", "-n", namespace, "link", "set", "eth0", "name", "net1");
      await run("ip", "-n", namespace, "link", "set", "net1", "up");
      await configure(pair, { config, psk });
      const agentProcess = inside(
        `${ROOT}/dist/status-agent`,
        "gateway",
        `--config-directory=${config}`,
        `--psk-directory=${psk}`,
        `--run-directory=${runFolder}`,
        "--metrics-bind-address=127.0.0.1:9903",
      );
      const idle = new Deno.Command(idleBinary, { stdin: "null" }).spawn();
      children.push(agentProcess, idle);
      await eventually("the agent has fenced the namespace", 20, () => Deno.stat(`${runFolder}/fenced`));
      // charon wants a /run of its own for its pid file, and the socket in the folder that it shares with the agent.
      const script =
        `mkdir -p ${pair.folder}/share && mount --bind ${runFolder} ${pair.folder}/share && mount -t tmpfs t /run &&
        mkdir -p ${runFolder} && mount --bind ${pair.folder}/share ${runFolder} && STRONGSWAN_CONF=${runFolder}/strongswan.conf exec /usr/sbin/charon-systemd`;
      children.push(inside("unshare", "-m", "sh", "-c", script));
      const scrape = (): Promise<string> =>
        run("ip", "netns", "exec", namespace, "curl", "-sf", "http://127.0.0.1:9903/metrics");
      const begun = performance.now();
      await eventually(
        `${TUNNELS} tunnels are up`,
        40,
        async () => (await scrape()).match(/^ipsec_tunnel_up\{.*\} 1$/gm)?.length === TUNNELS,
      );
      note(`${TUNNELS} tunnels up; waiting until it is 60 s old`);
      while (performance.now() - begun < WAIT_MS) {
        await scrape();
        await new Promise((resolve) => setTimeout(resolve, SCRAPE_MS));
      }
      const samples: { ours: number[]; peer: number[] } = { ours: [], peer: [] };
      for (let i = 0; i < 5; i++) {
        samples.ours.push(await pss(agentProcess.pid));
        samples.peer.push(await pss(idle.pid));
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
      const [ours, peer] = [median(samples.ours), median(samples.peer)];
      return { unit: "MiB", ours, peerName: "one-line program", peer, ratio: peer / ours };
    } finally {
      for (const child of children) {
        try {
          child.kill("SIGKILL");
        } catch { /* it ended by itself */ }
        await child.status;
      }
      await Deno.remove(folder, { recursive: true });
    }
  },
};
