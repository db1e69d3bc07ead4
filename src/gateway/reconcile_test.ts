import assert from "node:assert/strict";
import { CLEANUP_FINALIZER, CONDITION_TYPES, GATEWAYS } from "../api/ipsec_gateway.ts";
import { DEPLOYMENTS } from "../kube/kinds.ts";
import { statusAnswer } from "../kube/loopback_apiserver.ts";
import { floatingIP, PINNED, putSecret, startWorld, type World } from "./context_builder.ts";
import type { Step } from "./context.ts";
import { gateway } from "./gateway_builder.ts";
import { reconcileGateway } from "./reconcile.ts";
import { steps } from "./steps.ts";

const { signal } = new AbortController();

function conditions(world: World): Record<string, string | undefined> {
  return Object.fromEntries(
    (world.gateway().status?.conditions ?? []).map(({ type }) => [type, world.condition(type)]),
  );
}

function transitionTimes(world: World): Record<string, string> {
  return Object.fromEntries(
    (world.gateway().status?.conditions ?? []).map((one) => [one.type, one.lastTransitionTime]),
  );
}

/** Moves the world's clock on. */
function later(world: World, seconds: number): void {
  world.now = new Date(world.now.getTime() + seconds * 1000);
}

Deno.test("reconcileGateway() reaches every condition when nothing is in the way", async () => {
  await using world = startWorld();
  world.put(gateway());
  const first = await world.reconcile();
  assert.equal(world.condition("DeploymentReady"), "False/DeploymentUnavailable");
  assert.equal(first.requeueAfterMs, 15_000);
  world.start("node-1");
  const second = await world.reconcile();
  assert.equal(second.requeueAfterMs, 48_000);
  assert.deepEqual(conditions(world), {
    Validated: "True/Valid",
    Allocated: "True/Allocated",
    PortReady: "True/PortReady",
    PortAttached: "True/Attached",
    FIPAttached: "True/Associated",
    RoutingReady: "True/NotRequired",
    ConfigRendered: "True/Rendered",
    DeploymentReady: "True/Available",
  });
  assert.deepEqual(second.transitions.map(({ type }) => type), ["DeploymentReady"]);
  const { status, metadata } = world.gateway();
  assert.deepEqual(metadata.finalizers, [CLEANUP_FINALIZER]);
  assert.deepEqual(status?.summary, { tunnels: 1, established: "1", ready: "True" });
  assert.equal(status?.nodeName, "node-1");
  assert.equal(status?.serviceCIDR, "100.64.0.0/24");
  assert.equal(status?.port?.id, world.item("floatingips", ({ id }) => id !== "pinned").port_id);
  assert.equal(world.replicas(), 1);
});

Deno.test("reconcileGateway() writes nothing when nothing has changed", async () => {
  await using world = startWorld();
  await world.run();
  const writes = () => world.api.requests.filter(({ method }) => method !== "GET").length;
  const before = { writes: writes(), calls: world.double.seen(/^(POST|PUT|DELETE) \/v2/).length };
  await world.reconcile();
  assert.deepEqual({ writes: writes(), calls: world.double.seen(/^(POST|PUT|DELETE) \/v2/).length }, before);
});

Deno.test("reconcileGateway() moves lastTransitionTime when a condition changes, and at no other time", async () => {
  await using world = startWorld();
  await world.run();
  const start = transitionTimes(world);
  for (let round = 0; round < 3; round++) {
    later(world, 60);
    await world.reconcile();
  }
  assert.deepEqual(transitionTimes(world), start);

  world.nodes = [];
  later(world, 60);
  await world.reconcile();
  const broken = world.now.toISOString().replace(".000Z", "Z");
  assert.deepEqual(transitionTimes(world), { ...start, PortAttached: broken });
  later(world, 60);
  await world.reconcile();
  assert.equal(world.condition("PortAttached"), "False/NoReadyNode");
  assert.deepEqual(transitionTimes(world), { ...start, PortAttached: broken });
});

/** A step that takes as long as `seconds` on the world's clock. */
function slow(step: Step, world: World, seconds: number): Step {
  return {
    ...step,
    run: async (context) => {
      const outcome = await step.run(context);
      later(world, seconds);
      return outcome;
    },
  };
}

Deno.test("reconcileGateway() tells how far it is while a step is slow", async () => {
  await using world = startWorld();
  world.put(gateway());
  const seen: string[][] = [];
  const list = steps.map((step) => step.name === "attach" ? slow(step, world, 3) : step);
  const watching = list.map((step) => ({
    ...step,
    run: (context: Parameters<Step["run"]>[0]) => {
      if (step.name === "floating IP") seen.push(Object.keys(conditions(world)));
      return step.run(context);
    },
  }));
  await reconcileGateway(world.deps, world.gateway(), { steps: watching, random: () => 0, signal });
  assert.deepEqual(seen, [["Validated", "Allocated", "PortReady", "PortAttached"]]);
});

Deno.test("reconcileGateway() keeps the time of a condition that it tells twice when steps are slow", async () => {
  await using world = startWorld();
  world.put(gateway());
  const list = steps.map((step) =>
    ["attach", "floating IP"].includes(step.name) ? slow(step, world, 3) : step
  );
  const start = world.now.getTime();
  await reconcileGateway(world.deps, world.gateway(), { steps: list, random: () => 0, signal });
  const time = (seconds: number) => new Date(start + seconds * 1000).toISOString().replace(".000Z", "Z");
  const times = transitionTimes(world);
  assert.equal(times.Validated, time(3));
  assert.equal(times.PortAttached, time(3));
  assert.equal(times.FIPAttached, time(6));
});

Deno.test("reconcileGateway() keeps the agent's report of meanwhile when a step was slow", async () => {
  await using world = startWorld();
  await world.run();
  later(world, 115);
  const list = steps.map((step) =>
    step.name !== "attach" ? step : {
      ...step,
      run: async (context: Parameters<Step["run"]>[0]) => {
        const outcome = await step.run(context);
        later(world, 10);
        world.start("node-1");
        return outcome;
      },
    }
  );
  await reconcileGateway(world.deps, world.gateway(), { steps: list, random: () => 0, signal });
  const { status } = world.gateway();
  assert.deepEqual(status?.summary, { tunnels: 1, established: "1", ready: "True" });
  assert.equal(status?.agent?.lastHeartbeatTime, world.now.toISOString());
});

Deno.test("reconcileGateway() does not call an edit observed that came while a step was slow", async () => {
  await using world = startWorld();
  await world.run();
  const list = steps.map((step) =>
    step.name !== "attach" ? step : {
      ...step,
      run: (context: Parameters<Step["run"]>[0]) => {
        world.edit({ mtu: 1300 });
        return slow(step, world, 3).run(context);
      },
    }
  );
  await reconcileGateway(world.deps, world.gateway(), { steps: list, random: () => 0, signal });
  assert.equal(world.gateway().metadata.generation, 4);
  assert.equal(world.gateway().status?.observedGeneration, 3);
  await world.reconcile();
  assert.equal(world.gateway().status?.observedGeneration, 4);
});

Deno.test("reconcileGateway() tells what was reached when a step throws", async () => {
  await using world = startWorld();
  world.put(gateway());
  const list = steps.map((step) =>
    step.name === "attach" ? { ...step, run: () => Promise.reject(new Error("unforeseen")) } : step
  );
  const reconcile = reconcileGateway(world.deps, world.gateway(), { steps: list, random: () => 0, signal });
  await assert.rejects(reconcile, /unforeseen/);
  assert.deepEqual(Object.keys(conditions(world)), ["Validated", "Allocated", "PortReady"]);
  assert.equal(world.gateway().status?.port?.id, world.item("ports", ({ id }) => id !== "R-port").id);
});

Deno.test("reconcileGateway() leaves the conditions of later steps as they were when an earlier one fails", async () => {
  await using world = startWorld();
  await world.run();
  world.edit({ mtu: 1300 });
  putSecret(world, "keys", { other: "x" });
  const { requeueAfterMs } = await world.reconcile();
  assert.equal(requeueAfterMs, 15_000);
  assert.equal(world.condition("Validated"), "False/SecretKeyMissing");
  assert.equal(world.conditionOf("Validated")?.observedGeneration, 4);
  assert.equal(world.condition("DeploymentReady"), "True/Available");
  assert.equal(world.conditionOf("DeploymentReady")?.observedGeneration, 3);
  assert.equal(world.gateway().status?.summary?.ready, "False");
  assert.equal(world.replicas(), 1);
});

Deno.test("reconcileGateway() puts the finalizer before anything is made", async () => {
  await using world = startWorld();
  world.put(gateway());
  world.intercept = ({ method }) => method === "PATCH" ? statusAnswer(403, "Forbidden") : undefined;
  await assert.rejects(world.reconcile(), /Forbidden/);
  assert.deepEqual(world.double.calls, []);
});

Deno.test("reconcileGateway() is content when the gateway is gone before its status is written", async () => {
  await using world = startWorld();
  world.put(gateway({}, { metadata: { finalizers: [CLEANUP_FINALIZER] } }));
  const last = steps.map((step) =>
    step.name !== "deployment" ? step : {
      ...step,
      run: async (context: Parameters<Step["run"]>[0]) => {
        const outcome = await step.run(context);
        world.api.remove("/apis/ipsec.bnerd.net/v1alpha1/namespaces/tenant/ipsecgateways/gw");
        return outcome;
      },
    }
  );
  await reconcileGateway(world.deps, world.gateway(), { steps: last, random: () => 0, signal });
  assert.equal(world.read(GATEWAYS, "gw"), undefined);
});

// The floating IP is watched whatever is wrong: a gateway whose address has moved must not go on.

Deno.test("reconcileGateway() scales to 0 when the floating IP has moved while a Secret's key is missing", async () => {
  await using world = startWorld();
  await world.run();
  world.item("floatingips", ({ id }) => id !== "pinned").port_id = "somebody-else";
  putSecret(world, "keys", { other: "x" });
  await world.reconcile();
  assert.equal(world.condition("Validated"), "False/SecretKeyMissing");
  assert.equal(world.replicas(), 0);
  assert.equal(world.gateway().status?.floatingIP, undefined);
});

Deno.test("reconcileGateway() does not scale when a key is missing and OpenStack answers 503 or 404 to the token", async () => {
  for (
    const fault of [{ match: /GET \/v2.0\/floatingips/, status: 503 }, {
      match: /\/auth\/tokens/,
      status: 404,
    }]
  ) {
    await using world = startWorld();
    await world.run();
    putSecret(world, "keys", { other: "x" });
    world.double.tokens.clear();
    world.double.fail({ ...fault, times: 99 });
    await world.reconcile();
    assert.equal(world.condition("Validated"), "False/SecretKeyMissing");
    assert.equal(world.replicas(), 1, String(fault.match));
    assert.ok(world.gateway().status?.floatingIP?.id);
  }
});

Deno.test("reconcileGateway() does not scale when a key is missing and the floating IP is still ours", async () => {
  await using world = startWorld();
  await world.run();
  putSecret(world, "keys", { other: "x" });
  await world.reconcile();
  assert.equal(world.replicas(), 1);
});

// A pinned address that is elsewhere: everything is made ready for the cutover, and nothing runs.

function pinnedElsewhere(world: World): void {
  Object.assign(world.item("floatingips"), floatingIP("pinned", PINNED, { port_id: "old-gateway" }));
  world.put(gateway({ endpoint: { floatingIP: PINNED } }));
}

Deno.test("reconcileGateway() renders ahead with 0 replicas when the pinned address is elsewhere", async () => {
  await using world = startWorld();
  pinnedElsewhere(world);
  const { requeueAfterMs } = await world.reconcile();
  assert.deepEqual(conditions(world), {
    Validated: "True/Valid",
    Allocated: "True/Allocated",
    PortReady: "True/PortReady",
    PortAttached: "True/Attached",
    FIPAttached: "False/EnsureFIPFailed",
    ConfigRendered: "True/Rendered",
    DeploymentReady: "False/AwaitingFloatingIP",
  });
  assert.equal(requeueAfterMs, 15_000);
  assert.equal(world.replicas(), 0);
  assert.equal(world.item("floatingips").port_id, "old-gateway");

  // The cutover.
  world.item("floatingips").port_id = null;
  await world.reconcile();
  assert.equal(world.condition("FIPAttached"), "True/Associated");
  assert.equal(world.replicas(), 1);
  assert.equal(world.gateway().status?.floatingIP?.pinned, true);
});

Deno.test("reconcileGateway() stops at the floating IP when the pinned address is elsewhere and renderAhead is off", async () => {
  await using world = startWorld({ renderAhead: false });
  pinnedElsewhere(world);
  await world.reconcile();
  assert.equal(world.condition("FIPAttached"), "False/EnsureFIPFailed");
  assert.deepEqual(Object.keys(conditions(world)), CONDITION_TYPES.slice(0, 5));
  assert.equal(world.read(DEPLOYMENTS, "gw"), undefined);
});

Deno.test("reconcileGateway() scales to 0 when the pinned address is moved away, and back when it returns", async () => {
  await using world = startWorld();
  await world.run(gateway({ endpoint: { floatingIP: PINNED } }));
  const own = world.item("floatingips").port_id;
  world.item("floatingips").port_id = "old-gateway";
  await world.reconcile();
  assert.equal(world.replicas(), 0);
  assert.equal(world.condition("DeploymentReady"), "False/AwaitingFloatingIP");
  assert.equal(world.gateway().status?.floatingIP, undefined);
  world.item("floatingips").port_id = null;
  await world.reconcile();
  assert.equal(world.replicas(), 1);
  assert.equal(world.item("floatingips").port_id, own);
});
