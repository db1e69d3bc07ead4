import assert from "node:assert/strict";
import { DEPLOYMENTS, PODS } from "../../kube/kinds.ts";
import { node, NOW, otherGateway, startWorld, type World } from "../context_builder.ts";
import { gateway } from "../gateway_builder.ts";

const port = (world: World) => world.item("ports", ({ id }) => id !== "R-port");

/** Reconciles until the port has left its server and the gateway is attached again, as the controller would. */
async function untilAttached(world: World): Promise<string[]> {
  const waits: string[] = [];
  for (let round = 0; round < 6; round++) {
    await world.reconcile();
    if (world.condition("PortAttached") === "True/Attached") return waits;
    waits.push(world.conditionOf("PortAttached")?.reason ?? "");
    assert.equal(world.replicas(), 0, "nothing may start while the port moves");
  }
  throw new Error(`Cannot see the port attached: ${waits.join(", ")}`);
}

Deno.test("attach chooses the Ready node with the fewest gateways", async () => {
  await using world = startWorld();
  world.put(otherGateway("first", {}, { status: { nodeName: "node-1" } }));
  world.put(gateway());
  await world.reconcile();
  assert.equal(world.gateway().status?.nodeName, "node-2");
  assert.equal(port(world).device_id, "B");
});

Deno.test("attach waits and names the reason when no node is Ready", async () => {
  await using world = startWorld();
  world.nodes = [node("node-1", { notReadyMs: 1000 })];
  world.put(gateway());
  const { requeueAfterMs } = await world.reconcile();
  assert.equal(world.condition("PortAttached"), "False/NoReadyNode");
  assert.match(world.conditionOf("PortAttached")?.message ?? "", /of 1 nodes 0 are Ready/);
  assert.equal(requeueAfterMs, 60_000);
  assert.equal(world.condition("FIPAttached"), undefined);
});

Deno.test("attach names node and remedy when the node has no server", async () => {
  await using world = startWorld();
  world.nodes = [node("node-9")];
  world.put(gateway());
  await world.reconcile();
  assert.equal(world.condition("PortAttached"), "False/ServerNotFound");
  assert.match(world.conditionOf("PortAttached")?.message ?? "", /node-9.*openstack:\/\/\/SERVER-ID/);
});

Deno.test("attach moves a drained gateway: scale to 0, detach, attach, old pods away, then start there", async () => {
  await using world = startWorld();
  await world.run();
  world.double.detachReads = 2;
  world.nodes = [node("node-1", { cordoned: true }), node("node-2")];
  // The eviction: the new pod cannot be scheduled to the cordoned node.
  world.write(PODS, { metadata: { name: "gw-pod" }, spec: { containers: [] }, status: { phase: "Pending" } });
  world.write(PODS, { metadata: { name: "gw-stuck" }, spec: { nodeName: "node-1", containers: [] } });

  const replicas: (number | undefined)[] = [];
  const meanwhile = () => void replicas.push(world.replicas());
  world.double.fail({ match: /DELETE \/servers\/A\/os-interface/, meanwhile });
  world.double.fail({ match: /POST \/servers\/B\/os-interface/, meanwhile });

  const waits = await untilAttached(world);
  assert.deepEqual([...new Set(waits)], ["DetachPending"]);
  assert.deepEqual(replicas, [0, 0]);
  assert.equal(port(world).device_id, "B");
  assert.equal(world.read(PODS, "gw-stuck"), undefined);
  assert.deepEqual(world.gateway().status?.nodeName, "node-2");
  assert.equal(world.replicas(), 1);
  const affinity = world.read(DEPLOYMENTS, "gw")?.spec?.template.spec?.affinity;
  const [term] = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ??
    [];
  assert.deepEqual(term?.matchFields?.[0]?.values, ["node-2"]);

  assert.equal(world.double.seen(/POST \/servers\/B\/os-interface/).length, 1);
});

Deno.test("attach waits with DetachPending, and attaches nowhere, while the port has a device_id", async () => {
  await using world = startWorld();
  await world.run();
  world.double.detachReads = 1_000_000;
  world.nodes = [node("node-1", { notReadyMs: 61_000 }), node("node-2")];
  for (let round = 0; round < 3; round++) {
    const { requeueAfterMs } = await world.reconcile();
    assert.equal(world.condition("PortAttached"), "False/DetachPending");
    assert.equal(requeueAfterMs, 2_000);
  }
  assert.match(world.conditionOf("PortAttached")?.message ?? "", /still attached to server A/);
  assert.equal(world.gateway().status?.nodeName, "node-1");
  assert.equal(port(world).device_id, "A");
  assert.equal(world.double.seen(/POST \/servers\/B/).length, 0);
  assert.equal(world.replicas(), 0);
  // The pod on the lost node is not deleted before the fence.
  assert.ok(world.read(PODS, "gw-pod"));
});

Deno.test("attach leaves a gateway on a cordoned node while its pod runs there", async () => {
  await using world = startWorld();
  await world.run();
  world.nodes = [node("node-1", { cordoned: true }), node("node-2")];
  await world.reconcile();
  assert.equal(world.gateway().status?.nodeName, "node-1");
  assert.equal(port(world).device_id, "A");
  assert.equal(world.replicas(), 1);
});

Deno.test("attach stays within the grace of a node that is NotReady, and moves beyond it", async () => {
  await using world = startWorld({ nodeGraceMs: 60_000 });
  await world.run();
  world.nodes = [node("node-1", { notReadyMs: 0 }), node("node-2")];
  world.now = new Date(NOW.getTime() + 59_999);
  await world.reconcile();
  assert.equal(world.condition("PortAttached"), "True/Attached");
  assert.equal(world.replicas(), 1);
  assert.equal(port(world).device_id, "A");

  world.now = new Date(NOW.getTime() + 60_000);
  await untilAttached(world);
  assert.equal(port(world).device_id, "B");
  assert.equal(world.gateway().status?.nodeName, "node-2");
  assert.equal(world.read(PODS, "gw-pod"), undefined);
});

Deno.test("attach stays where it is when its node is lost and there is no other", async () => {
  await using world = startWorld();
  await world.run();
  world.nodes = [node("node-1", { notReadyMs: 61_000 })];
  await world.reconcile();
  assert.equal(world.condition("PortAttached"), "False/NoReadyNode");
  assert.equal(port(world).device_id, "A");
  assert.equal(world.replicas(), 1);
  assert.equal(world.gateway().status?.nodeName, "node-1");
});

Deno.test("attach goes on with a move when the controller was killed before the status was written", async () => {
  await using world = startWorld();
  await world.run();
  world.nodes = [node("node-2")];
  Object.assign(port(world), { device_id: "B" });
  await world.reconcile();
  assert.equal(world.gateway().status?.nodeName, "node-2");
  assert.equal(world.read(PODS, "gw-pod"), undefined);
});

Deno.test("attach neither scales nor moves when Nova answers 503", async () => {
  await using world = startWorld();
  await world.run();
  world.double.fail({ match: /GET \/servers/, status: 503, times: 99 });
  await world.reconcile();
  assert.equal(world.condition("PortAttached"), "False/AttachFailed");
  assert.equal(world.replicas(), 1);
  assert.equal(port(world).device_id, "A");
});
