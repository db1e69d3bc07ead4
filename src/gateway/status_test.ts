import assert from "node:assert/strict";
import { CONDITION_TYPES, type IPsecGatewayStatus } from "../api/ipsec_gateway.ts";
import type { Condition } from "../kube/conditions.ts";
import type { Outcome, Step } from "./context.ts";
import { gateway, tunnel } from "./gateway_builder.ts";
import { controllerStatus, differs, summarise, summary } from "./status.ts";
import { steps } from "./steps.ts";

const NOW = new Date("2026-01-02T03:04:05Z");

function results(...outcomes: Outcome[]) {
  return outcomes.map((outcome, index) => ({ step: steps[index] as Step, outcome }));
}
const done: Outcome = { kind: "done" };
const before = (conditions: Condition[] = []) => ({ conditions, generation: 3 });

Deno.test("summarise() gives every condition when all steps are done", () => {
  const conditions = summarise(before(), results(...steps.map(() => done)), steps, NOW);
  assert.deepEqual(conditions.map((condition) => condition.type), [...CONDITION_TYPES]);
  assert.ok(
    conditions.every((condition) => condition.status === "True" && condition.observedGeneration === 3),
  );
});

Deno.test("summarise() leaves out what was never reached when a step fails", () => {
  const failed: Outcome = { kind: "failed", reason: "AllocationFailed", message: "full" };
  const conditions = summarise(before(), results(done, failed), steps, NOW);
  assert.deepEqual(conditions.map(({ type, status, reason }) => [type, status, reason]), [
    ["Validated", "True", "Validated"],
    ["Allocated", "False", "AllocationFailed"],
  ]);
});

Deno.test("summarise() does not call a condition True when only the first of its two steps is done", () => {
  const conditions = summarise(before(), results(done, done, done), steps, NOW);
  assert.ok(!conditions.some((condition) => condition.type === "PortReady"));
});

Deno.test("summarise() keeps a condition with its own generation when this reconcile did not get there", () => {
  const old: Condition = {
    type: "DeploymentReady",
    status: "True",
    reason: "Available",
    message: "",
    lastTransitionTime: "2026-01-01T00:00:00Z",
    observedGeneration: 2,
  };
  const failed: Outcome = { kind: "failed", reason: "SecretNotFound", message: "gone" };
  const conditions = summarise(before([old]), results(failed), steps, NOW);
  assert.deepEqual(conditions.find((condition) => condition.type === "DeploymentReady"), old);
  assert.equal(conditions[0]?.type, "Validated");
});

const ALL_TRUE: Condition[] = CONDITION_TYPES.map((type) => ({
  type,
  status: "True",
  reason: type,
  message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z",
}));

function reported(tunnels: IPsecGatewayStatus["tunnels"], secondsAgo = 10): IPsecGatewayStatus {
  const lastHeartbeatTime = new Date(NOW.getTime() - secondsAgo * 1000).toISOString();
  return { ...(tunnels ? { tunnels } : {}), agent: { podName: "p", lastHeartbeatTime } };
}

Deno.test("summary() is Ready when every tunnel that is to be up is", () => {
  const status = reported([{ name: "berlin", state: "REKEYING" }, { name: "oslo", state: "DOWN" }]);
  const both = gateway({ tunnels: [tunnel(), tunnel({ name: "oslo", startAction: "none" })] }, { status });
  assert.deepEqual(summary(both, ALL_TRUE, NOW), { tunnels: 2, established: "1", ready: "True" });
});

Deno.test("summary() is not Ready when a tunnel is down", () => {
  const down = gateway({}, { status: reported([{ name: "berlin", state: "DOWN" }]) });
  assert.deepEqual(summary(down, ALL_TRUE, NOW), { tunnels: 1, established: "0", ready: "False" });
});

Deno.test("summary() is Unknown when the agent has been silent for more than two minutes", () => {
  const silent = gateway({}, { status: reported([{ name: "berlin", state: "ESTABLISHED" }], 121) });
  assert.deepEqual(summary(silent, ALL_TRUE, NOW), { tunnels: 1, established: "Unknown", ready: "Unknown" });
});

Deno.test("summary() is False, not Unknown, when there is no pod yet", () => {
  assert.deepEqual(summary(gateway(), [], NOW), { tunnels: 1, established: "0", ready: "False" });
});

Deno.test("controllerStatus() keeps what it knew when the steps did not get there", () => {
  const before = { serviceCIDR: "100.64.0.0/24", securityGroupID: "sg" };
  const status = controllerStatus(gateway({}, { status: before }), {}, [], NOW);
  assert.equal(status.serviceCIDR, "100.64.0.0/24");
  assert.equal(status.securityGroupID, "sg");
});

Deno.test("controllerStatus() drops the floating IP when it is seen elsewhere", () => {
  const before = { floatingIP: { id: "f", address: "203.0.113.9", pinned: true } };
  const status = controllerStatus(gateway({}, { status: before }), { floatingIPLost: true }, [], NOW);
  assert.equal(status.floatingIP, undefined);
});

Deno.test("differs() ignores the agent's part", () => {
  const status = controllerStatus(gateway(), {}, [], NOW);
  const same = gateway({}, {
    status: { ...status, tunnels: [{ name: "berlin", state: "DOWN" }], dataPlane: "xfrm" },
  });
  assert.equal(differs(same, status), false);
  assert.equal(differs(gateway(), status), true);
});
