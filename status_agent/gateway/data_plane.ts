// Keeps this pod's network as the configuration wants it, and lets charon start only once the fence stands.
import { createApplier } from "../../src/dataplane/apply.ts";
import { holds, toCidrs } from "../../src/dataplane/cidr.ts";
import { detectDriver } from "../../src/dataplane/detect.ts";
import { type Exec, runOrThrow } from "../../src/dataplane/exec.ts";
import { FENCE_TABLE, renderFence } from "../../src/dataplane/fence.ts";
import type { KernelState } from "../../src/dataplane/kernel.ts";
import { type Driver, localRanges, type Network, remoteRanges } from "../../src/dataplane/network.ts";
import { type Plan, planOf, sharedRemotes } from "../../src/dataplane/plan.ts";
import { renderStrongswanConf } from "../../src/dataplane/strongswan_conf.ts";
import type { Log } from "../../src/process/log.ts";
import type { GatewayConfig } from "./config.ts";
import { networkOf, UPLINK } from "./network.ts";

/** What the data plane works on. */
export interface DataPlaneOptions {
  /** Shared with the strongswan container: strongswan.conf, the marker, the VICI socket. */
  readonly runDirectory: string;
  readonly exec: Exec;
  readonly log: Log;
  /** `/proc`, for tests. */
  readonly proc?: string;
}

/** Something that is wrong with the pod and can't be mended from in here. */
export interface Problem {
  readonly text: string;
  /** Whether no packet gets through because of it: then the pod is not ready. */
  readonly fatal: boolean;
}

/** The data plane of a gateway. */
export interface DataPlane {
  /** The driver in use; undefined before {@linkcode DataPlane.ensure} has resolved once. */
  readonly driver: Driver | undefined;
  /**
   * Makes fence, links, addresses, rules and routes as configured; the first time also detects the driver, writes
   * strongswan.conf and then the marker that charon waits for. Calls queue. Resolves with what is wrong, sorted.
   *
   * @throws Error the kernel refuses; nothing that was in place is taken away.
   */
  ensure(config: GatewayConfig): Promise<readonly Problem[]>;
}

/** What a configuration comes to. */
interface Wanted {
  readonly config: GatewayConfig;
  readonly network: Network;
  readonly plan: Plan;
  /** For `nft -f -`. */
  readonly fence: string;
}

/** A data plane that has done nothing yet. */
export function createDataPlane({ runDirectory, exec, log, proc = "/proc" }: DataPlaneOptions): DataPlane {
  const marker = `${runDirectory}/fenced`;
  let driver: Driver | undefined;
  /** The text that was applied, and what nft made of it: so that a change by hand is seen. */
  let fence: { readonly text: string; readonly listed: string } | undefined;
  let queue: Promise<unknown> = Promise.resolve();
  const applier = createApplier(exec);
  let wanted: Wanted | undefined;

  function wantedOf(config: GatewayConfig, driver: Driver): Wanted {
    if (wanted?.config === config) return wanted;
    const network = networkOf(config, driver);
    return wanted = { config, network, plan: planOf(network), fence: renderFence(network) };
  }

  async function start(config: GatewayConfig): Promise<Driver> {
    const running = await runningDriver();
    if (running) {
      log.info("Data plane found running", { driver: running });
      return running;
    }
    const detected = await detectDriver(config.agent.dataPlane, exec);
    log.info("Data plane chosen", { driver: detected.driver, reason: detected.reason });
    return detected.driver;
  }

  async function namespaceId(): Promise<string> {
    return await Deno.readLink(`${proc}/self/ns/net`);
  }

  /** The driver of the charon that already runs in this network namespace, after a restart of the agent. */
  async function runningDriver(): Promise<Driver | undefined> {
    try {
      const [namespace, name] = (await Deno.readTextFile(marker)).trim().split(" ");
      if (namespace !== await namespaceId()) return undefined;
      return name === "xfrm" || name === "libipsec" ? name : undefined;
    } catch {
      return undefined;
    }
  }

  async function ensureFence(text: string): Promise<void> {
    const list = () => exec(["nft", "-s", "list", "table", "inet", FENCE_TABLE]);
    if (fence?.text === text) {
      const { stdout } = await list();
      if (stdout === fence.listed) return;
      log.warn("The fence was changed by somebody else; put back");
    }
    await runOrThrow(exec, ["nft", "-f", "-"], { stdin: text });
    const { code, stdout } = await list();
    fence = code === 0 ? { text, listed: stdout } : undefined;
  }

  /** Only now may charon start. */
  async function release(driver: Driver): Promise<void> {
    const conf = renderStrongswanConf(driver, {
      uplink: UPLINK,
      paths: { viciSocket: `${runDirectory}/charon.vici`, log: "/dev/stdout" },
    });
    await replaceFile(`${runDirectory}/strongswan.conf`, conf);
    await replaceFile(marker, `${await namespaceId()} ${driver}\n`);
  }

  async function ensure(config: GatewayConfig): Promise<readonly Problem[]> {
    const chosen = driver ?? await start(config);
    const { network, plan, fence } = wantedOf(config, chosen);
    await ensureFence(fence);
    const { lines, missing, before } = await applier.apply(plan);
    if (lines.length) log.info("Links, addresses, rules and routes written", { lines });
    if (driver === undefined) {
      await release(chosen);
      driver = chosen;
    }
    return [
      ...problemsOf(config, network, before),
      ...missing.filter((device) => device !== UPLINK).map((device) => fatal(`${device} is missing`)),
    ].sort((a, b) => a.text < b.text ? -1 : 1);
  }

  function problemsOf({ agent }: GatewayConfig, network: Network, kernel: KernelState): Problem[] {
    const problems = uplinkProblems(network, agent.port.macAddress, kernel).map(fatal);
    const forward = readSetting(`${proc}/sys/net/ipv4/ip_forward`);
    if (forward !== "1") {
      problems.push(
        fatal(`net.ipv4.ip_forward is ${forward}, so nothing is forwarded: the tuning plugin has not set it`),
      );
    }
    if (agent.dataPlane !== "auto" && agent.dataPlane !== network.driver) {
      problems.push(
        warning(
          `the data plane ${agent.dataPlane} is asked for, ${network.driver} runs until the pod is made anew`,
        ),
      );
    }
    for (const cidr of sharedRemotes(network)) {
      problems.push(
        warning(`two tunnels have the remote subnet ${cidr}: only the first of them is used for it`),
      );
    }
    problems.push(...insideProblems(network, kernel).map(fatal));
    return problems;
  }

  return {
    get driver() {
      return driver;
    },
    ensure(config) {
      const result = queue.then(() => ensure(config));
      queue = result.catch(() => {});
      return result;
    },
  };
}

function fatal(text: string): Problem {
  return { text, fatal: true };
}

function warning(text: string): Problem {
  return { text, fatal: false };
}

/** What is wrong with net1: it is not ours to make, the NetworkAttachmentDefinition does. */
export function uplinkProblems(network: Network, macAddress: string, kernel: KernelState): string[] {
  const { device, address, prefixLength } = network.uplink;
  const link = kernel.links.find(({ name }) => name === device);
  if (!link) return [`${device} is missing: the port's NIC is not in this pod`];
  const problems: string[] = [];
  if (!link.up) problems.push(`${device} is down`);
  if (link.mac !== undefined && link.mac.toLowerCase() !== macAddress.toLowerCase()) {
    problems.push(`${device} has the MAC ${link.mac}, the port has ${macAddress}`);
  }
  if (!kernel.addresses.includes(`${device} ${address}/${prefixLength}`)) {
    problems.push(`${device} has not the port's address ${address}/${prefixLength}`);
  }
  return problems;
}

/** The pod's own addresses on the cluster's side that a tunnel's subnets hold: the fence cuts them off. */
export function insideProblems(network: Network, kernel: KernelState): string[] {
  const ranges = network.mode === "nat"
    ? [...remoteRanges(network), ...localRanges(network), network.serviceRange]
    : remoteRanges(network);
  return kernel.addresses.flatMap((entry) => {
    const [device = "", address = ""] = entry.split(/[ /]/);
    if (device === "lo" || device === network.uplink.device || device.startsWith("ipsec")) return [];
    const range = ranges.find((one) => holds(one, address));
    return range
      ? [
        `the pod's address ${address} lies inside ${
          toCidrs([range]).join(", ")
        } of a tunnel: the cluster is cut off`,
      ]
      : [];
  });
}

function readSetting(path: string): string {
  try {
    return Deno.readTextFileSync(path).trim();
  } catch {
    return "unreadable";
  }
}

/** Writes a file that others read so that they see the old or the new one whole. */
async function replaceFile(path: string, text: string): Promise<void> {
  await Deno.writeTextFile(`${path}.new`, text, { mode: 0o644 });
  await Deno.rename(`${path}.new`, path);
}
