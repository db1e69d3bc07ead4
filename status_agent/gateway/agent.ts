// The agent of a gateway: what is known at any moment, and the loops that change it.
import { type Daemon, startDaemon } from "../../src/charon/daemon.ts";
import type { DaemonState } from "../../src/charon/sa_model.ts";
import { createExec } from "../../src/dataplane/exec.ts";
import { createKubeClient } from "../../src/kube/client.ts";
import { inClusterConnection, isInCluster } from "../../src/kube/in_cluster.ts";
import { sleep } from "../../src/process/clock.ts";
import { errorText, type Log } from "../../src/process/log.ts";
import { type GatewayConfig, readGatewayConfig } from "./config.ts";
import { createDataPlane, type Problem } from "./data_plane.ts";
import { desiredOf } from "./desired.ts";
import type { GatewayFlags } from "./flags.ts";
import { type Answer, serveProbes } from "./probe_server.ts";
import { type Reporter, startReporter } from "./reporter.ts";
import { selfMetrics } from "./self_metrics.ts";
import { fingerprint } from "./watch.ts";

/** How often the mounted files are looked at. */
const WATCH_MS = 1_000;
/** How often the kernel is compared with what it should be. */
const RESYNC_MS = 5_000;
/** How often garbage is collected, where the executable lets us (it is compiled with --expose-gc). */
const COLLECT_MS = 10_000;
/** The loop that does both must have turned within this time, or the process is restarted. */
const STALL_MS = 60_000;

const NOTHING_YET: DaemonState = { connected: false, life: 0, tunnels: [], at: 0 };

/** "ok", or what is wrong. */
function answer(problem: string | undefined): Answer {
  return problem ? { status: 503, body: `${problem}\n` } : { status: 200, body: "ok\n" };
}

/** What is known at any moment, and the loops that change it. */
export class GatewayAgent {
  readonly #plane;
  #config: GatewayConfig | undefined;
  /** The last one that fence and routes stand for: only this one goes to charon. */
  #fenced: GatewayConfig | undefined;
  /** Why the rendered files can't be used; what ran before goes on. */
  #configProblem: string | undefined;
  #planeProblem: string | undefined;
  #podProblems: readonly Problem[] = [];
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
      serveProbes({
        address: this.flags["metrics-bind-address"],
        routes: {
          "/healthz": () => answer(this.#stalled()),
          "/metrics": async () => ({ status: 200, body: await this.#metrics() }),
          "/readyz": () => answer(this.#unready().join("\n")),
        },
      });
    }
    await this.#watch();
  }

  /** Everything that is wrong, sorted; what belongs to a tunnel is not here but at the tunnel. */
  #problems(): string[] {
    const problems = this.#podProblems.map(({ text }) => text);
    if (this.#configProblem !== undefined) problems.push(this.#configProblem);
    if (this.#planeProblem !== undefined) problems.push(this.#planeProblem);
    if (!this.#config && problems.length === 0) problems.push("The configuration has not been read yet");
    return problems.sort();
  }

  /** What keeps packets from getting through; the rest stands in the status and takes no Service away. */
  #unready(): string[] {
    if (this.#plane.driver === undefined) return this.#problems();
    return this.#podProblems.filter(({ fatal }) => fatal).map(({ text }) => text);
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
    let collectedAt = performance.now();
    while (!this.signal.aborted) {
      const now = directories.map(fingerprint);
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
      if (performance.now() - collectedAt >= COLLECT_MS) {
        // V8 sees a small heap and waits, while what it holds outside grows: some 4 MiB within a minute.
        (globalThis as { gc?: () => void }).gc?.();
        collectedAt = performance.now();
      }
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

  /** Fence, links and routes for the present configuration; then charon may have it. Rejects when they can't be made. */
  async #ensurePlane(config: GatewayConfig): Promise<void> {
    try {
      const problems = await this.#plane.ensure(config);
      this.#fenced = config;
      const texts = problems.map(({ text }) => text);
      if (texts.join() !== this.#podProblems.map(({ text }) => text).join()) {
        if (texts.length) this.log.warn("The pod is not as it has to be", { problems: texts });
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
      throw error;
    }
  }

  /** The data plane first, then charon's driver: nothing may leave in clear. */
  async #ensure(): Promise<void> {
    if (!this.#config) return;
    // It is tried again in a few seconds; until then what ran goes on.
    await this.#ensurePlane(this.#config).catch(() => {});
    if (this.#plane.driver !== undefined) this.#daemon ??= this.#startDaemon();
    this.#reporter ??= await this.#startReporter();
  }

  #startDaemon(): Daemon {
    return startDaemon({
      socketPath: `${this.flags["run-directory"]}/charon.vici`,
      digestPath: `${this.flags["run-directory"]}/digests.json`,
      desired: () => {
        const config = this.#fenced, driver = this.#plane.driver;
        if (!config || !driver) return Promise.reject(new Error("The configuration is not fenced yet"));
        return Promise.resolve(desiredOf(config, { driver, readKey: (key) => this.#readKey(key) }));
      },
      onState: (state) => {
        this.#state = state;
        this.#report();
        return Promise.resolve();
      },
      // A new charon has made a new ipsec0, with an MTU of its own.
      onConnect: async () => {
        if (this.#config) await this.#ensurePlane(this.#config);
      },
      log: this.log,
      tickMs: this.flags.interval,
      signal: this.signal,
    });
  }

  /** Read at each tick; see fingerprint() on why not asynchronously. */
  #readKey(key: string): Promise<Uint8Array> {
    return new Promise((resolve) => resolve(Deno.readFileSync(`${this.flags["psk-directory"]}/${key}`)));
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
    return await (this.#daemon?.metrics() ?? "") + selfMetrics(this.#problems().length);
  }
}
