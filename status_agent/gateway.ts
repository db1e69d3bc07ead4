// `status-agent gateway`: sits beside the charon of a gateway pod. It fences the pod's network, gives charon its
// connections and keys, watches its SAs, and tells the API server. Only wiring here.
import { startDaemon } from "../src/charon/daemon.ts";
import type { Daemon } from "../src/charon/daemon.ts";
import type { DaemonState } from "../src/charon/sa_model.ts";
import { createExec } from "../src/dataplane/exec.ts";
import { createKubeClient } from "../src/kube/client.ts";
import { inClusterConnection, isInCluster } from "../src/kube/in_cluster.ts";
import { sleep } from "../src/process/clock.ts";
import { flagsOrExit } from "../src/process/flags.ts";
import { serveHealth } from "../src/process/health.ts";
import { createLog, errorText, type Log } from "../src/process/log.ts";
import { PROCESS_METRICS, processStats } from "../src/process/process_stats.ts";
import { type GatewayConfig, readGatewayConfig } from "./gateway/config.ts";
import { createDataPlane } from "./gateway/data_plane.ts";
import { desiredOf } from "./gateway/desired.ts";
import { GATEWAY_FLAGS, type GatewayFlags } from "./gateway/flags.ts";
import { type Reporter, startReporter } from "./gateway/reporter.ts";
import { fingerprint } from "./gateway/watch.ts";

/** How often the mounted files are looked at. */
const WATCH_MS = 1_000;
/** How often the kernel is compared with what it should be. */
const RESYNC_MS = 5_000;
/** The loop that does both must have turned within this time, or the process is restarted. */
const STALL_MS = 60_000;

const NOTHING_YET: DaemonState = { connected: false, life: 0, tunnels: [], at: 0 };

/** Runs until SIGTERM. Wrong flags: one line for each on standard error, exit 2. */
export async function runGateway(args: readonly string[], version: string): Promise<void> {
  const flags = flagsOrExit(GATEWAY_FLAGS, {
    args,
    env: Deno.env.get,
    program: "status-agent gateway",
    version,
    about: "runs the tunnels of an IPsecGateway beside its charon",
  });
  const log = createLog({ level: flags["log-level"] });
  const life = new AbortController();
  // At once, without a farewell: charon keeps its SAs, and the NIC must be free for the next pod.
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(name, () => {
      log.info("Stopped; charon keeps its SAs", { signal: name });
      Deno.exit(0);
    });
  }
  await new GatewayAgent(flags, log, life.signal).run(version);
}

/** What is known at any moment, and the loops that change it. */
class GatewayAgent {
  readonly #plane;
  #config: GatewayConfig | undefined;
  /** Why the rendered files can't be used; what ran before goes on. */
  #configProblem: string | undefined;
  #planeProblem: string | undefined;
  #podProblems: readonly string[] = [];
  #daemon: Daemon | undefined;
  #state = NOTHING_YET;
  #reporter: Reporter | undefined;
  #turnedAt = performance.now();

  constructor(readonly flags: GatewayFlags, readonly log: Log, readonly signal: AbortSignal) {
    this.#plane = createDataPlane({ runDirectory: flags["run-directory"], exec: createExec(), log });
  }

  async run(version: string): Promise<void> {
    this.log.info("Starting", { version, configDirectory: this.flags["config-directory"] });
    if (this.flags["metrics-bind-address"] !== "0") {
      serveHealth({
        address: this.flags["metrics-bind-address"],
        live: { loop: () => this.#stalled() },
        ready: { gateway: () => this.#problems().join("; ") || undefined },
        metrics: () => this.#metrics(),
        log: this.log,
      });
    }
    await this.#watch();
  }

  /** Everything that is wrong, sorted; what belongs to a tunnel is not here but at the tunnel. */
  #problems(): string[] {
    const problems = [...this.#podProblems];
    if (this.#configProblem !== undefined) problems.push(this.#configProblem);
    if (this.#planeProblem !== undefined) problems.push(this.#planeProblem);
    if (!this.#config && problems.length === 0) problems.push("The configuration has not been read yet");
    return problems.sort();
  }

  #stalled(): string | undefined {
    const ms = performance.now() - this.#turnedAt;
    return ms > STALL_MS ? `the watch loop has not turned for ${Math.round(ms / 1000)} s` : undefined;
  }

  /** Looks at the files each second and at the kernel every few; everything else hangs on it. */
  async #watch(): Promise<void> {
    const directories = [this.flags["config-directory"], this.flags["psk-directory"]];
    let seen: string[] = [];
    let ensuredAt = -Infinity;
    while (!this.signal.aborted) {
      const now = await Promise.all(directories.map(fingerprint));
      const configChanged = now[0] !== seen[0];
      const keysChanged = now[1] !== seen[1];
      if (configChanged || !this.#config) await this.#readConfig();
      if (configChanged || performance.now() - ensuredAt >= RESYNC_MS) {
        await this.#ensure();
        ensuredAt = performance.now();
      }
      if (configChanged || keysChanged) this.#daemon?.wake();
      seen = now;
      this.#report();
      this.#turnedAt = performance.now();
      await sleep(WATCH_MS, { signal: this.signal });
    }
  }

  async #readConfig(): Promise<void> {
    try {
      this.#config = await readGatewayConfig(this.flags["config-directory"]);
      if (this.#configProblem !== undefined) this.log.info("The configuration is usable again");
      this.#configProblem = undefined;
      this.log.info("Configuration read", { tunnels: this.#config.agent.tunnels.map(({ name }) => name) });
    } catch (error) {
      const problem = errorText(error);
      if (problem !== this.#configProblem) this.log.error("Cannot use the configuration", { error: problem });
      this.#configProblem = problem;
    }
  }

  /** The data plane first, then charon's driver: nothing may leave in clear. */
  async #ensure(): Promise<void> {
    if (!this.#config) return;
    try {
      const problems = await this.#plane.ensure(this.#config);
      if (problems.join() !== this.#podProblems.join()) {
        if (problems.length) this.log.warn("The pod is not as it has to be", { problems });
        else this.log.info("The pod is as it has to be");
      }
      this.#podProblems = problems;
      this.#planeProblem = undefined;
    } catch (error) {
      const problem = errorText(error);
      if (problem !== this.#planeProblem) {
        this.log.error("The data plane is not complete", { error: problem });
      }
      this.#planeProblem = problem;
    }
    if (this.#plane.driver !== undefined) this.#daemon ??= this.#startDaemon();
    this.#reporter ??= await this.#startReporter();
  }

  #startDaemon(): Daemon {
    return startDaemon({
      socketPath: `${this.flags["run-directory"]}/charon.vici`,
      digestPath: `${this.flags["run-directory"]}/digests.json`,
      desired: () => {
        const config = this.#config, driver = this.#plane.driver;
        if (!config || !driver) return Promise.reject(new Error("The configuration has not been read yet"));
        const readKey = (key: string) => Deno.readFile(`${this.flags["psk-directory"]}/${key}`);
        return Promise.resolve(desiredOf(config, { driver, readKey }));
      },
      onState: (state) => {
        this.#state = state;
        this.#report();
        return Promise.resolve();
      },
      // A new charon has made a new ipsec0, with an MTU of its own.
      onConnect: () => this.#ensure(),
      log: this.log,
      tickMs: this.flags.interval,
      signal: this.signal,
    });
  }

  async #startReporter(): Promise<Reporter | undefined> {
    if (!this.#config || !this.flags.report || !isInCluster()) return undefined;
    try {
      const { gateway: name, namespace } = this.#config.agent;
      const client = createKubeClient(await inClusterConnection(), { userAgent: "ipsec-status-agent" });
      const podName = Deno.env.get("POD_NAME") ?? Deno.hostname();
      return startReporter({
        client,
        gateway: { name, namespace },
        podName,
        log: this.log,
        signal: this.signal,
      });
    } catch (error) {
      this.log.warn("Cannot report to the API server; it is tried again", { error: errorText(error) });
      return undefined;
    }
  }

  #report(): void {
    this.#reporter?.report({
      daemon: this.#state,
      driver: this.#plane.driver,
      problems: this.#problems(),
      podName: Deno.env.get("POD_NAME") ?? Deno.hostname(),
    });
  }

  async #metrics(): Promise<string> {
    const lines: string[] = [];
    for (const [name, value] of Object.entries(await processStats())) {
      const type = name.endsWith("_total") ? "counter" : "gauge";
      lines.push(
        `# HELP ${name} ${PROCESS_METRICS[name] ?? ""}`,
        `# TYPE ${name} ${type}`,
        `${name} ${value}`,
      );
    }
    lines.push(
      "# HELP ipsec_gateway_problems What the agent found wrong with its pod, as a number of things",
      "# TYPE ipsec_gateway_problems gauge",
      `ipsec_gateway_problems ${this.#problems().length}`,
    );
    const charon = await this.#daemon?.metrics() ?? "";
    return `${charon}${lines.join("\n")}\n`;
  }
}
