import assert from "node:assert/strict";
import { CLEANUP_FINALIZER, GATEWAYS } from "../api/ipsec_gateway.ts";
import type { EventText } from "../kube/events.ts";
import { CONFIG_MAPS, SECRETS } from "../kube/kinds.ts";
import { eventually } from "../process/eventually.ts";
import { silentLog } from "../process/log.ts";
import { type ManualClock, manualClock } from "../process/manual_clock.ts";
import { node, NOW, otherGateway, putNode, putSecret, startWorld, type World } from "./context_builder.ts";
import { createGatewayController, type GatewayController } from "./controller.ts";
import { gateway } from "./gateway_builder.ts";

interface Running extends AsyncDisposable {
  readonly world: World;
  readonly controller: GatewayController;
  readonly clock: ManualClock;
  /** The times of all timers that were set, in milliseconds. */
  readonly timers: number[];
  readonly events: readonly EventText[];
  /** Ends the work, and resolves when it has ended. */
  stop(): Promise<void>;
  /** How many whole reconciles were begun: each opens its cloud first. */
  rounds(): number;
  /** Waits until there is no work, and what was written has come back by the watches. */
  quiet(): Promise<void>;
}

/** A controller over a world in which "gw" runs, if `object` is not null. */
async function start({ object = gateway() as ReturnType<typeof gateway> | null } = {}): Promise<Running> {
  const world = startWorld();
  for (const one of world.nodes) putNode(world, one);
  if (object) await world.run(object);
  const manual = manualClock(NOW);
  const timers: number[] = [];
  const clock: ManualClock = {
    ...manual,
    setTimer: (ms, fire) => {
      timers.push(ms);
      return manual.setTimer(ms, fire);
    },
  };
  const events: EventText[] = [];
  let waiting = 0;
  let working = () => 0;
  const controller = createGatewayController({
    kube: world.deps.kube,
    clouds: world.deps.clouds,
    options: world.deps.options,
    events: {
      event: (_regarding, text) => void events.push(text),
      idle: () => Promise.resolve(),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    },
    log: silentLog,
    resolve: world.deps.resolve,
    apiServer: undefined,
    workers: 2,
    queueMetrics: {
      added: () => {},
      retried: () => {},
      depth: (keys) => void (waiting = keys),
      waited: () => {},
      worked: () => {},
      running: (ages) => void (working = () => ages().length),
    },
    clock,
    random: () => 0,
  });
  const ending = new AbortController();
  const ended = controller.run(ending.signal);
  const running: Running = {
    world,
    controller,
    clock,
    timers,
    events,
    rounds: () => world.double.seen(/GET \/v2.0\/networks$/).length,
    async quiet() {
      const asked = () => world.api.requests.length + world.double.calls.length;
      let seen = -1;
      let still = 0;
      await eventually("no work, and nobody asks anybody anything", () => {
        still = waiting + working() === 0 && asked() === seen ? still + 1 : 0;
        seen = asked();
        return still > 5;
      });
    },
    async stop() {
      ending.abort();
      await ended;
    },
    async [Symbol.asyncDispose]() {
      await running.stop();
      await controller[Symbol.asyncDispose]();
      await world[Symbol.asyncDispose]();
    },
  };
  await eventually("the caches are filled", () => controller.hasSynced());
  if (object) await eventually("the first reconcile", () => running.rounds() > 2);
  await running.quiet();
  return running;
}

/** Does `act`, and answers how many whole reconciles came of it. */
async function roundsOf(running: Running, act: () => void): Promise<number> {
  const before = running.rounds();
  act();
  await eventually("a whole reconcile", () => running.rounds() > before);
  await running.quiet();
  return running.rounds() - before;
}

Deno.test("createGatewayController() runs only the summary when the agent reports", async () => {
  await using running = await start();
  const { world } = running;
  const before = { rounds: running.rounds(), calls: world.double.calls.length };
  const old = world.gateway();
  const tunnels = [{ name: "berlin", state: "DOWN" as const }];
  world.put({ ...old, status: { ...old.status, tunnels } });
  await eventually("the summary", () => world.gateway().status?.summary?.established === "0");
  await running.quiet();
  assert.deepEqual(world.gateway().status?.summary, { tunnels: 1, established: "0", ready: "False" });
  assert.deepEqual({ rounds: running.rounds(), calls: world.double.calls.length }, before);
  assert.equal(world.condition("DeploymentReady"), "True/Available");
});

Deno.test("createGatewayController() runs all steps when the spec is edited", async () => {
  await using running = await start();
  const { world } = running;
  assert.equal(await roundsOf(running, () => world.edit({ mtu: 1300 })), 1);
  assert.equal(world.gateway().status?.observedGeneration, 4);
  assert.match(world.read(CONFIG_MAPS, "gw-swanctl")?.data?.["agent.json"] ?? "", /"mtu": ?1300/);
});

Deno.test("createGatewayController() runs all steps when the status is of an older spec, whatever woke it", async () => {
  await using running = await start();
  const { world } = running;
  const old = world.gateway();
  const act = () => void world.put({ ...old, status: { ...old.status, observedGeneration: 2 } });
  assert.equal(await roundsOf(running, act), 1);
  assert.equal(world.gateway().status?.observedGeneration, 3);
});

Deno.test("createGatewayController() runs all steps when labels or annotations change", async () => {
  await using running = await start();
  const { world } = running;
  for (const metadata of [{ labels: { team: "a" } }, { annotations: { note: "b" } }]) {
    const old = world.gateway();
    const act = () => void world.put({ ...old, metadata: { ...old.metadata, ...metadata } });
    assert.equal(await roundsOf(running, act), 1);
  }
});

/** Does `act`, which changes objects of the gateway, and waits until the controller has seen it and lets it settle. */
async function settling(running: Running, act: () => void): Promise<void> {
  running.timers.length = 0;
  act();
  await eventually("the change is seen", () => running.timers.includes(1_000));
  await running.quiet();
}

Deno.test("createGatewayController() makes an object of the gateway anew when it was deleted or changed", async () => {
  await using running = await start();
  const { world, clock } = running;
  const object = world.read(CONFIG_MAPS, "gw-nat");
  const rules = () => world.read(CONFIG_MAPS, "gw-nat")?.data?.["nat.rules"];
  const acts = [
    () => world.api.remove("/api/v1/namespaces/tenant/configmaps/gw-nat"),
    () => world.write(CONFIG_MAPS, { ...object, data: { "nat.rules": "by hand" } }),
  ];
  for (const act of acts) {
    const before = running.rounds();
    await settling(running, act);
    assert.equal(running.rounds(), before);
    await clock.advance(1_000);
    await eventually("it is as it was", () => rules() === object?.data?.["nat.rules"]);
    await running.quiet();
    assert.equal(running.rounds(), before + 1);
    // Our own write is a change too, and the round after it finds nothing to do.
    await clock.advance(1_000);
    await running.quiet();
  }
});

Deno.test("createGatewayController() looks at several changes together, and the agent's report does not hasten it", async () => {
  await using running = await start();
  const { world, clock } = running;
  const before = running.rounds();
  const names = ["gw-nat", "gw-swanctl"];
  await settling(running, () => {
    for (const name of names) world.api.remove(`/api/v1/namespaces/tenant/configmaps/${name}`);
  });
  const old = world.gateway();
  world.put({ ...old, status: { ...old.status, tunnels: [{ name: "berlin", state: "DOWN" }] } });
  await eventually("the summary", () => world.gateway().status?.summary?.established === "0");
  await running.quiet();
  assert.equal(running.rounds(), before);
  await clock.advance(1_000);
  await eventually("both are there again", () => names.every((name) => world.read(CONFIG_MAPS, name)));
  await running.quiet();
  assert.equal(running.rounds(), before + 1);
});

Deno.test("createGatewayController() runs all steps of the gateways of a node that becomes NotReady, and no others", async () => {
  await using running = await start();
  const { world } = running;
  assert.equal(await roundsOf(running, () => putNode(world, node("node-1", { notReadyMs: 0 }))), 1);
  // A heartbeat of the node changes its status, not its readiness; and node-2 has no gateway.
  const before = running.rounds();
  const beating = node("node-1", { notReadyMs: 0 });
  putNode(world, { ...beating, status: { ...beating.status, capacity: { pods: "110" } } });
  putNode(world, node("node-2", { notReadyMs: 0 }));
  await running.quiet();
  assert.equal(running.rounds(), before);
});

Deno.test("createGatewayController() looks again when the time of the last reconcile has come", async () => {
  await using running = await start();
  const before = running.rounds();
  await running.clock.advance(47_000);
  await running.quiet();
  assert.equal(running.rounds(), before);
  await running.clock.advance(1_000);
  await eventually("the next round", () => running.rounds() === before + 1);
});

Deno.test("createGatewayController() tells a condition's change as an Event", async () => {
  await using running = await start({ object: null });
  running.world.put(gateway());
  await eventually(
    "the pod is waited for",
    () =>
      running.events.some(({ action, reason, type }) =>
        action === "DeploymentReady" && reason === "DeploymentUnavailable" && type === "Warning"
      ),
  );
  const normal = running.events.find(({ action }) => action === "PortAttached");
  assert.equal(normal?.type, "Normal");
  assert.equal(normal?.reason, "Attached");
});

Deno.test("createGatewayController() tries again when a step throws what it did not expect", async () => {
  await using running = await start();
  const { world, clock } = running;
  let refusals = 1;
  world.intercept = ({ method, path }) =>
    method === "GET" && path.endsWith("/secrets/keys") && refusals-- > 0
      ? new Response("{}", { status: 400 })
      : undefined;
  world.edit({ mtu: 1300 });
  await eventually("the failure", () => refusals < 1);
  await eventually("the next try", async () => {
    await clock.advance(250);
    return world.conditionOf("ConfigRendered")?.observedGeneration === 4;
  });
  assert.equal(clock.now() < 5_000, true);
});

Deno.test("createGatewayController() cleans up a gateway that is deleted, and says when it cannot", async () => {
  await using running = await start();
  const { world, clock } = running;
  world.api.remove("/api/v1/namespaces/tenant/pods/gw-pod");
  world.double.detachReads = 0;
  world.double.fail({ match: /DELETE \/v2.0\/ports/, status: 409 });
  world.remove();
  await eventually(
    "the failure is told",
    () =>
      running.events.some(({ reason, note }) =>
        reason === "CleanupFailed" && note.startsWith("Cannot clean up IPsecGateway tenant/gw: ")
      ),
  );
  await eventually("it is gone", async () => {
    await clock.advance(15_000);
    return world.read(GATEWAYS, "gw") === undefined;
  });
  assert.deepEqual(world.items("ports").map(({ id }) => id), ["R-port"]);
  assert.deepEqual(world.items("security-groups"), []);
  assert.deepEqual(world.items("floatingips").map(({ id }) => id), ["pinned"]);
});

Deno.test("createGatewayController() releases the cloud Secret when all its gateways are deleted at once", async () => {
  await using running = await start({ object: null });
  const { world } = running;
  putSecret(world, "cloud", { "clouds.yaml": "x" });
  const secret = world.read(SECRETS, "cloud");
  const finalizers = ["mine", "ipsec.bnerd.net/cloud-credentials"];
  world.write(SECRETS, { ...secret, metadata: { ...secret?.metadata, finalizers } });
  for (const name of ["a", "b", "c", "d"]) {
    world.put(otherGateway(name, { openstack: { cloudSecretRef: { name: "cloud" } } }, {
      metadata: { finalizers: [CLEANUP_FINALIZER], deletionTimestamp: NOW.toISOString() },
    }));
  }
  await eventually("all are gone", () => world.deps.gateways().length === 0);
  assert.deepEqual(world.read(SECRETS, "cloud")?.metadata?.finalizers, ["mine"]);
});

Deno.test("createGatewayController() takes nothing more when it is told to end", async () => {
  await using running = await start();
  await running.stop();
  const before = running.rounds();
  running.world.edit({ mtu: 1300 });
  await running.clock.advance(60_000);
  await running.quiet();
  assert.equal(running.rounds(), before);
  assert.deepEqual(running.controller.gateways().map(({ metadata }) => metadata.name), ["gw"]);
});
