import assert from "node:assert/strict";
import { DEPLOYMENTS, type Pod, PODS } from "../../kube/kinds.ts";
import { startWorld } from "../context_builder.ts";
import { gateway } from "../gateway_builder.ts";
import { podTrouble, podWithoutNic } from "./deployment.ts";

const NOW = new Date("2026-01-02T03:04:05Z");
const ago = (seconds: number) => new Date(NOW.getTime() - seconds * 1000).toISOString();
const POD: Pod = { metadata: { name: "gw-1", uid: "u" }, status: { startTime: ago(300) } };

function reporting(problems: string[], { secondsAgo = 5, podName = "gw-1" } = {}) {
  return gateway({}, { status: { agent: { podName, lastHeartbeatTime: ago(secondsAgo), problems } } });
}

Deno.test("podWithoutNic() names the pod when its agent misses net1", () => {
  assert.equal(podWithoutNic(reporting(["net1 is missing"]), [POD], NOW), POD);
});

Deno.test("podWithoutNic() names none when the report is of another pod, old, or from the pod's start", () => {
  assert.equal(podWithoutNic(reporting(["net1 is missing"], { podName: "gw-0" }), [POD], NOW), undefined);
  assert.equal(podWithoutNic(reporting(["net1 is missing"], { secondsAgo: 180 }), [POD], NOW), undefined);
  const young = { ...POD, status: { startTime: ago(20) } };
  assert.equal(podWithoutNic(reporting(["net1 is missing"]), [young], NOW), undefined);
});

Deno.test("podWithoutNic() names none when something else is wrong, or the pod ends already", () => {
  assert.equal(podWithoutNic(reporting(["net.ipv4.ip_forward is 0"]), [POD], NOW), undefined);
  const ending = { ...POD, metadata: { ...POD.metadata, deletionTimestamp: ago(1) } };
  assert.equal(podWithoutNic(reporting(["net1 is missing"]), [ending], NOW), undefined);
});

Deno.test("podTrouble() says what a container waits for", () => {
  const waiting = { waiting: { reason: "ImagePullBackOff", message: "not found" } };
  const pod: Pod = {
    metadata: { name: "gw-1" },
    status: {
      containerStatuses: [{
        name: "strongswan",
        ready: false,
        restartCount: 0,
        image: "",
        imageID: "",
        state: waiting,
      }],
    },
  };
  assert.equal(podTrouble([pod]), "container strongswan of pod gw-1 waits: ImagePullBackOff (not found)");
});

Deno.test("deployment names a foreign Deployment of the same name, and leaves it as it is", async () => {
  await using world = startWorld();
  const labels = { app: "shop" };
  const spec = { replicas: 3, selector: { matchLabels: labels }, template: {} };
  world.write(DEPLOYMENTS, { metadata: { name: "gw", labels }, spec });
  const before = world.read(DEPLOYMENTS, "gw");
  world.put(gateway());
  await world.reconcile();
  assert.equal(world.condition("DeploymentReady"), "False/DeploymentUnavailable");
  assert.match(
    world.conditionOf("DeploymentReady")?.message ?? "",
    /Deployment "tenant\/gw": an object of that name is there/,
  );
  assert.deepEqual(world.read(DEPLOYMENTS, "gw"), before);

  // Nor when the floating IP is gone.
  world.item("floatingips", ({ id }) => id !== "pinned").port_id = "foreign";
  await world.reconcile();
  assert.deepEqual(world.read(DEPLOYMENTS, "gw"), before);
});

Deno.test("deployment makes the pod anew when its agent has lost net1", async () => {
  await using world = startWorld();
  await world.run();
  world.now = new Date(world.now.getTime() + 60_000);
  const old = world.gateway();
  const agent = {
    podName: "gw-pod",
    lastHeartbeatTime: world.now.toISOString(),
    problems: ["net1 is missing"],
  };
  world.put({ ...old, status: { ...old.status, agent } });
  await world.reconcile();
  assert.equal(world.read(PODS, "gw-pod"), undefined);
  assert.match(world.conditionOf("DeploymentReady")?.message ?? "", /Pod gw-pod has lost the port's NIC/);
});

Deno.test("deployment says what the pod waits for", async () => {
  await using world = startWorld();
  world.put(gateway());
  world.write(PODS, {
    metadata: { name: "gw-pod" },
    status: { conditions: [{ type: "PodScheduled", status: "False", message: "0/2 nodes are available" }] },
  });
  await world.reconcile();
  assert.match(world.conditionOf("DeploymentReady")?.message ?? "", /gw-pod is not scheduled: 0\/2 nodes/);
});
