// fabric: makes packets follow what Neutron and Nova say.
//
// Neutron and Nova in the lab are real but move no packets. This loop reads them as admin and builds one network
// namespace, ipo-router:
//   br-ext       the external network: its gateway, the routers' addresses, the associated floating IPs
//   br-<net8>    a tenant network: the subnet's gateway address while a router interface is there
//   tap<port11>  one veth per port on a server; the far end is a NIC with the port's MAC in that node
//   lab_fabric   nft tables: 1:1 NAT, security groups, anti-spoofing
// It reads again when Neutron or Nova touch the change file, when a link of the namespace goes, and every two seconds.
//
//   deno run -A tests/lab/fabric/main.ts --pids DIR --changed FILE [--once]

import { parseArgs } from "node:util";
import { type Cloud, connectAs, type Port } from "../cloud.ts";
import { attempt } from "../command.ts";
import { type Rules, staleFlows, writeRules } from "./rules.ts";
import { applyRouter, applyTaps, findNode, makeRouter, type NodeAt, readLinks, ROUTER } from "./wires.ts";
import { nodeOf, readWorld, type World } from "./world.ts";

const POLL_MS = 2000;
/** Each so many polls everything is read again, not only what changes often. */
const FULL_EVERY = 15;
/** A step that takes longer is worth a line: the machine is overloaded, and the fabric late. */
const SLOW_MS = 1500;
/** A change file may be touched before the change is committed; so a second look follows the first. */
const SETTLE_MS = 400;

function log(text: string): void {
  // deno-lint-ignore no-console -- the log of this program
  console.log(`${new Date().toISOString()} ${text}`);
}

class Fabric {
  #cloud: Cloud | undefined;
  #world: World | undefined;
  #rules: Rules = { text: "", ports: new Map(), floating: new Map() };
  #pids: string;

  constructor(pids: string) {
    this.#pids = pids;
  }

  /** Reads, then builds. When OpenStack can't be read the last world stands, and a node that came back is plugged. */
  async step(full: boolean): Promise<void> {
    try {
      this.#cloud ??= await connectAs("admin");
      this.#world = await readWorld(this.#cloud, full ? undefined : this.#world);
    } catch (error) {
      log(`cannot read, state kept: ${error instanceof Error ? error.message : error}`);
    }
    if (this.#world) await this.#build(this.#world);
  }

  async #build(world: World): Promise<void> {
    const plugged = new Map<Port, NodeAt>();
    for (const port of world.ports) {
      const node = nodeOf(port, world);
      const at = node && await findNode(this.#pids, node);
      if (at) plugged.set(port, at);
    }
    const links = await readLinks();
    await applyRouter(world, links, log);
    // Before the wires: no port is ever plugged without its filter.
    await this.#filter(writeRules(world, [...plugged.keys()]));
    await applyTaps(world, plugged, links, log);
  }

  async #filter(rules: Rules): Promise<void> {
    if (rules.text === this.#rules.text) return;
    const { code, stderr } = await attempt(["nft", "-f", "-"], { in: `ns:${ROUTER}`, input: rules.text });
    if (code !== 0) throw new Error(`Cannot load the rules: ${stderr.trim()}\n${rules.text}`);
    const stale = staleFlows(this.#rules, rules);
    this.#rules = rules;
    log(`rules for ${rules.ports.size} ports, ${rules.floating.size} floating IPs`);
    // Replacing rules does not stop flows that conntrack knows.
    for (const flow of stale) await attempt(["conntrack", "-D", ...flow], { in: `ns:${ROUTER}` });
    if (stale.length) log(`flows dropped: ${stale.map((flow) => flow.join(" ")).join(", ")}`);
  }
}

/** Calls `wake` whenever a link of the router's namespace goes, until the process ends. */
async function watchLinks(wake: () => void): Promise<void> {
  let monitor: Deno.ChildProcess | undefined;
  // A monitor that outlived this process would keep the namespace and its wires alive after `ip netns del`.
  Deno.addSignalListener("SIGTERM", () => {
    monitor?.kill("SIGKILL");
    Deno.exit(0);
  });
  while (true) {
    const child = monitor = new Deno.Command("ip", {
      args: ["-n", ROUTER, "-o", "monitor", "link"],
      stdin: "null",
      stdout: "piped",
    })
      .spawn();
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      if (text.includes("Deleted")) wake();
    }
    await child.status;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function modified(file: string): Promise<number> {
  try {
    return (await Deno.stat(file)).mtime?.getTime() ?? 0;
  } catch {
    return 0;
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      pids: { type: "string" },
      changed: { type: "string" },
      once: { type: "boolean", default: false },
    },
  });
  if (!values.pids || !values.changed) {
    throw new TypeError("Cannot start without --pids DIR and --changed FILE");
  }
  await makeRouter();
  const fabric = new Fabric(values.pids);
  let linkGone = false;
  if (!values.once) watchLinks(() => linkGone = true);
  let seen = await modified(values.changed);
  for (let turn = 0, woken = false;; turn++) {
    const started = performance.now();
    try {
      await fabric.step(turn % FULL_EVERY === 0);
    } catch (error) {
      log(`step failed: ${error instanceof Error ? error.message : error}`);
    }
    const took = Math.round(performance.now() - started);
    if (turn === 0 || took > SLOW_MS) log(`${turn === 0 ? "first" : "slow"} step took ${took} ms`);
    if (values.once) break;
    const pause = woken ? SETTLE_MS : POLL_MS;
    woken = false;
    for (const end = performance.now() + pause; performance.now() < end && !woken && !linkGone;) {
      const now = await modified(values.changed);
      woken = now !== seen;
      seen = now;
      if (!woken) await new Promise((resolve) => setTimeout(resolve, 50));
    }
    linkGone = false;
  }
}
