import assert from "node:assert/strict";
import { createLog } from "../process/log.ts";
import { type FakeCharon, startFakeCharon, SUCCESS } from "../vici/fake_charon.ts";
import { section, textOf, type ViciSection } from "../vici/message.ts";
import { type Daemon, startDaemon } from "./daemon.ts";
import type { Desired } from "./desired.ts";
import type { DaemonState } from "./sa_model.ts";

/** Waits until `condition` holds. */
async function until(what: string, condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 8_000;
  while (!condition()) {
    assert(performance.now() < deadline, `not within 8 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A charon of which the test decides whether its one tunnel is up. */
class World implements AsyncDisposable {
  up = false;
  conns: string[] = [];
  readonly states: DaemonState[] = [];
  readonly log: string[] = [];
  readonly initiated: string[] = [];
  desired: () => Promise<Desired> = () => Promise.resolve(DESIRED);
  onState: () => Promise<void> = () => Promise.resolve();
  charon!: FakeCharon;
  daemon!: Daemon;
  readonly #abort = new AbortController();

  static async start({ tickMs = 60_000, onConnect = () => Promise.resolve() } = {}): Promise<World> {
    const world = new World();
    world.charon = await startFakeCharon(async ({ name, message }, client) => {
      if (name === "get-conns") return section({ conns: world.conns });
      if (name === "get-shared") return section({ keys: [] });
      if (name === "version") return section({ version: "5.9.8" });
      if (name === "load-conn") world.conns.push(...message.keys());
      if (name === "list-sas" && world.up) await client.event("list-sa", SA);
      if (name === "initiate") {
        world.initiated.push(
          `${textOf(message, "ike")}/${textOf(message, "child")}/${textOf(message, "timeout")}`,
        );
      }
      return name.startsWith("list") ? new Map() : SUCCESS;
    });
    world.daemon = startDaemon({
      socketPath: world.charon.path,
      digestPath: `${world.charon.path}.digests`,
      desired: () => world.desired(),
      onState: (state) => {
        world.states.push(state);
        return world.onState();
      },
      onConnect,
      tickMs,
      log: createLog({ level: "debug", write: (line) => world.log.push(line) }),
      signal: world.#abort.signal,
    });
    return world;
  }

  get state(): string | undefined {
    return this.daemon.state.tunnels[0]?.state;
  }

  count(request: string): number {
    return this.charon.seen.filter((line) => line === `request ${request}`).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort();
    await this.daemon.done;
    await this.charon[Symbol.asyncDispose]();
  }
}

const SA: ViciSection = section({
  t: {
    uniqueid: "1",
    state: "ESTABLISHED",
    "child-sas": { "c-1": { name: "c", uniqueid: "1", state: "INSTALLED" } },
  },
});
const DESIRED: Desired = {
  connections: [{
    name: "t",
    message: section({ children: { c: {} } }),
    keyId: "k",
    children: [{ name: "c", startAction: "start" }],
  }],
  keys: [{ id: "k", owners: ["peer"], read: () => Promise.resolve(new TextEncoder().encode("key")) }],
  keyPrefix: "k",
};

Deno.test("startDaemon() pushes keys before it loads, and an event makes it read again", async () => {
  await using world = await World.start();
  await until("the first reading", () => world.daemon.state.connected);
  const order = world.charon.seen.filter((line) => /load-|list-sas/.test(line));
  assert.deepEqual(order.slice(0, 3), ["request load-shared", "request load-conn", "request list-sas"]);
  assert.equal(world.daemon.state.version, "5.9.8");
  world.up = true;
  await [...world.charon.clients][0]?.event("child-updown", section({ up: "yes", t: {} }));
  await until("up", () => world.state === "ESTABLISHED");
  assert.equal(world.count("load-conn"), 1);
});

Deno.test("startDaemon() initiates a child that reads DOWN twice, though the state can't be reported", async () => {
  await using world = await World.start();
  world.onState = () => Promise.reject(new Error("no API server"));
  await until("initiated", () => world.initiated.length > 0);
  assert.deepEqual(world.initiated, ["t/c/-1"]);
  assert(
    world.log.some((line) =>
      line.includes("Cannot report the state: no API server") || line.includes("no API server")
    ),
  );
});

Deno.test("startDaemon() ticks while a report hangs", async () => {
  await using world = await World.start();
  let release: (() => void) | undefined;
  world.onState = () => new Promise((resolve) => release = resolve);
  await until("initiated", () => world.initiated.length > 0);
  assert.equal(world.states.length, 1);
  world.up = true;
  world.daemon.wake();
  await until("up", () => world.state === "ESTABLISHED");
  world.onState = () => Promise.resolve();
  release?.();
  await until("the newest was told", () => world.states.at(-1)?.tunnels[0]?.state === "ESTABLISHED");
});

Deno.test("startDaemon() reads UNKNOWN while charon is away, and gives everything to the next one", async () => {
  let connects = 0;
  await using world = await World.start({ onConnect: () => Promise.resolve(void connects++) });
  world.up = true;
  await until("up", () => world.state === "ESTABLISHED");
  world.charon.kill();
  await until("UNKNOWN", () => world.state === "UNKNOWN" && !world.daemon.state.connected);
  assert.match(world.daemon.state.error ?? "", /charon closed the connection|there is no socket/);
  world.conns = [];
  world.charon.start();
  await until("up again", () => world.state === "ESTABLISHED");
  assert.deepEqual(
    [world.count("load-conn"), world.count("load-shared"), world.daemon.state.life, connects],
    [2, 2, 2, 2],
  );
  assert.equal(world.daemon.state.connected, true);
});

Deno.test("startDaemon() changes nothing when it can't read what is desired", async () => {
  await using world = await World.start();
  world.up = true;
  await until("up", () => world.state === "ESTABLISHED");
  world.desired = () => Promise.reject(new Error("half written"));
  const before = world.count("list-sas");
  world.daemon.wake();
  await until("another tick", () => world.count("list-sas") > before);
  assert.deepEqual([world.count("unload-conn"), world.count("terminate"), world.state], [
    0,
    0,
    "ESTABLISHED",
  ]);
});

Deno.test("startDaemon() waits for a charon that is not there yet, with the tunnels as UNKNOWN", async () => {
  await using world = await World.start();
  world.charon.kill();
  await until("UNKNOWN", () => world.state === "UNKNOWN");
  const metrics = await world.daemon.metrics();
  assert.match(metrics, /^ipsec_vici_up 0$/m);
  assert.match(metrics, /^ipsec_tunnel_up\{tunnel="t"\} 0$/m);
  world.charon.start();
  await until("connected", () => world.daemon.state.connected);
});

Deno.test("startDaemon() sends no connection again when only the connection to the same charon was cut", async () => {
  await using world = await World.start();
  world.up = true;
  await until("up", () => world.state === "ESTABLISHED");
  [...world.charon.clients][0]?.close();
  await until("connected again", () => world.daemon.state.life === 2 && world.state === "ESTABLISHED");
  assert.deepEqual([world.count("load-conn"), world.count("load-shared")], [1, 2]);
});

Deno.test("startDaemon() shows added and removed tunnels while charon is away", async () => {
  await using world = await World.start();
  await until("connected", () => world.daemon.state.connected);
  world.charon.kill();
  await until("UNKNOWN", () => world.state === "UNKNOWN");
  const [t] = DESIRED.connections;
  world.desired = () => Promise.resolve({ ...DESIRED, connections: [{ ...t!, name: "u" }] });
  world.daemon.wake();
  await until("the other tunnel", () => world.daemon.state.tunnels.map(({ name }) => name).join() === "u");
});

Deno.test("startDaemon() asks for `alert` only where charon knows it", async () => {
  await using world = await World.start();
  await until("connected", () => world.daemon.state.connected);
  assert(world.charon.seen.includes("register log"));
  assert(!world.charon.seen.includes("register alert"));
});

Deno.test("startDaemon() terminates what an earlier agent had left to terminate", async () => {
  await using world = await World.start();
  world.up = true;
  await until("up", () => world.state === "ESTABLISHED");
  const path = `${world.charon.path}.digests`;
  const file = JSON.parse(await Deno.readTextFile(path));
  await Deno.writeTextFile(path, JSON.stringify({ ...file, doomed: ["ike:1", "ike:77", "nonsense"] }));
  [...world.charon.clients][0]?.close();
  await until("terminated", () => world.count("terminate") > 0);
  world.up = false;
  world.daemon.wake();
  await until("forgotten", () => JSON.parse(Deno.readTextFileSync(path)).doomed.length === 0);
});
