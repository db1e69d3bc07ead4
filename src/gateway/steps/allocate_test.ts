import assert from "node:assert/strict";
import type { IPsecGateway } from "../../api/ipsec_gateway.ts";
import { otherGateway, startWorld } from "../context_builder.ts";
import { gateway } from "../gateway_builder.ts";
import { allocate } from "./allocate.ts";

const holding = (name: string, serviceCIDR: string): IPsecGateway =>
  otherGateway(name, {}, { status: { serviceCIDR } });

Deno.test("allocate gives different /24s when two gateways ask at once", async () => {
  await using world = startWorld();
  world.put(gateway());
  world.put(otherGateway("other"));
  const outcomes = await Promise.all(
    ["gw", "other"].map((name) => allocate.run(world.context({}, name))),
  );
  assert.deepEqual(outcomes.map(({ kind }) => kind), ["done", "done"]);
  assert.deepEqual(
    ["gw", "other"].map((name) => world.gateway(name).status?.serviceCIDR).sort(),
    ["100.64.0.0/24", "100.64.1.0/24"],
  );
});

Deno.test("allocate keeps what the gateway has, and asks nobody", async () => {
  await using world = startWorld();
  world.put(gateway({}, { status: { serviceCIDR: "100.64.7.0/24" } }));
  const context = world.context();
  assert.deepEqual(await allocate.run(context), {
    kind: "done",
    reason: "Allocated",
    message: "the service CIDR is 100.64.7.0/24",
  });
  assert.equal(context.facts.serviceCIDR, "100.64.7.0/24");
  assert.deepEqual(world.api.requests, []);
});

Deno.test("allocate fails with the pool named, and waits a minute, when the pool is full", async () => {
  await using world = startWorld({ serviceCIDRPool: ["100.64.0.0/23"] });
  world.put(holding("a", "100.64.0.0/24"));
  world.put(holding("b", "100.64.1.0/24"));
  world.put(gateway());
  const { requeueAfterMs } = await world.reconcile();
  assert.equal(world.condition("Allocated"), "False/AllocationFailed");
  assert.match(
    world.conditionOf("Allocated")?.message ?? "",
    /all 2 \/24s of the service CIDR pool 100\.64\.0\.0\/23/,
  );
  assert.equal(requeueAfterMs, 60_000);
  assert.equal(world.gateway().status?.serviceCIDR, undefined);

  world.api.remove("/apis/ipsec.bnerd.net/v1alpha1/namespaces/tenant/ipsecgateways/a");
  await world.reconcile();
  assert.equal(world.gateway().status?.serviceCIDR, "100.64.0.0/24");
});

Deno.test("allocate gives the /24 that the spec wants, and names its holder when it is taken", async () => {
  await using world = startWorld();
  world.put(gateway({ serviceCIDR: "100.64.9.0/24" }));
  await allocate.run(world.context());
  assert.equal(world.gateway().status?.serviceCIDR, "100.64.9.0/24");

  world.put(otherGateway("late", { serviceCIDR: "100.64.9.0/24" }));
  const outcome = await allocate.run(world.context({}, "late"));
  assert.equal(outcome.kind, "failed");
  assert.match(outcome.message ?? "", /100\.64\.9\.0\/24 is held by IPsecGateway tenant\/gw/);
  assert.equal(world.gateway("late").status?.serviceCIDR, undefined);
});

Deno.test("allocate refuses a /24 outside of the pool", async () => {
  await using world = startWorld();
  world.put(gateway({ serviceCIDR: "10.99.0.0/24" }));
  const outcome = await allocate.run(world.context());
  assert.equal(outcome.kind === "failed" && outcome.reason, "AllocationFailed");
  assert.match(outcome.message ?? "", /is not in the service CIDR pool 100\.64\.0\.0\/16/);
});

Deno.test("allocate has written the /24 before it lets the next one go", async () => {
  await using world = startWorld();
  world.put(gateway());
  await allocate.run(world.context());
  const methods = world.api.requests.map(({ method, path }) => `${method} ${path.split("/").at(-1)}`);
  assert.deepEqual(methods, ["GET ipsecgateways", "PATCH status"]);
});
