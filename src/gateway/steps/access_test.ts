import assert from "node:assert/strict";
import type { ReverseExposureSpec } from "../../api/ipsec_gateway.ts";
import { NETWORK_POLICIES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SERVICES } from "../../kube/kinds.ts";
import { statusAnswer } from "../../kube/loopback_apiserver.ts";
import type { Resource } from "../../kube/resource.ts";
import { startWorld } from "../context_builder.ts";
import { gateway } from "../gateway_builder.ts";
import { objectLabels, ownerReference } from "../names.ts";
import { reversePorts } from "../numbers.ts";
import { access } from "./access.ts";

const reverse = (name: string): ReverseExposureSpec => ({
  name,
  port: 443,
  protocol: "TCP",
  remoteAddress: "192.168.77.10",
  remotePort: 8443,
});

Deno.test("access makes the agent's identity, the policy and a Service for each reverse exposure", async () => {
  await using world = startWorld();
  world.put(gateway({ reverseExposures: [reverse("billing")] }));
  assert.deepEqual(await access.run(world.context()), { kind: "done" });
  const name = "gw-ipsec-gateway";
  const resources: readonly Resource[] = [SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, NETWORK_POLICIES];
  for (const resource of resources) {
    assert.deepEqual(world.read(resource, name)?.metadata?.ownerReferences, [ownerReference(gateway())]);
  }
  const [own] = world.read(ROLES, name)?.rules ?? [];
  assert.deepEqual(own?.resourceNames, ["gw"]);
  assert.deepEqual(own?.verbs, ["get"]);
  const podPort = reversePorts([{ name: "billing" }]).get("billing");
  const [service] = world.read(SERVICES, "gw-billing")?.spec?.ports ?? [];
  assert.deepEqual(service, { name: "billing", port: 443, protocol: "TCP", targetPort: podPort });
  assert.deepEqual(world.read(NETWORK_POLICIES, name)?.spec?.ingress?.[0]?.ports, [
    { port: 9903, protocol: "TCP" },
    { port: podPort, protocol: "TCP" },
  ]);
});

Deno.test("access removes Services of reverse exposures that are gone, and none of others", async () => {
  await using world = startWorld();
  world.put(gateway({ reverseExposures: [reverse("billing"), reverse("stock")] }));
  await access.run(world.context());
  world.write(SERVICES, { metadata: { name: "gw-foreign", labels: objectLabels("gw") } });
  world.edit({ reverseExposures: [reverse("stock")] });
  await access.run(world.context());
  assert.equal(world.read(SERVICES, "gw-billing"), undefined);
  assert.ok(world.read(SERVICES, "gw-stock"));
  assert.ok(world.read(SERVICES, "gw-foreign"));
});

Deno.test("access removes every Service when the mode becomes routed", async () => {
  await using world = startWorld();
  world.put(gateway({ reverseExposures: [reverse("billing")] }));
  await access.run(world.context());
  world.edit({ mode: "routed" });
  await access.run(world.context());
  assert.equal(world.read(SERVICES, "gw-billing"), undefined);
});

Deno.test("access names a foreign Service of the same name, and leaves it as it is", async () => {
  await using world = startWorld();
  const foreign = { metadata: { name: "gw-billing", labels: { "app.kubernetes.io/managed-by": "Helm" } } };
  world.write(SERVICES, foreign);
  const before = world.read(SERVICES, "gw-billing");
  world.put(gateway({ reverseExposures: [reverse("billing")] }));
  const outcome = await access.run(world.context());
  assert.equal(outcome.kind === "failed" && outcome.reason, "DeploymentUnavailable");
  assert.match(outcome.message ?? "", /Service "tenant\/gw-billing".*belongs to Helm/);
  assert.deepEqual(world.read(SERVICES, "gw-billing"), before);
});

Deno.test("access fails with DeploymentReady and the deployment is not made when the API server refuses", async () => {
  await using world = startWorld();
  world.intercept = ({ path }) =>
    path.includes("/rolebindings/") ? statusAnswer(403, "Forbidden") : undefined;
  world.put(gateway());
  await world.reconcile();
  assert.equal(world.condition("DeploymentReady"), "False/DeploymentUnavailable");
  assert.match(world.conditionOf("DeploymentReady")?.message ?? "", /Forbidden/);
  assert.equal(world.replicas(), undefined);
});
