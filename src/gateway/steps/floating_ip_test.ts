import assert from "node:assert/strict";
import { floatingIP, NOW, otherGateway, PINNED, startWorld, type World } from "../context_builder.ts";
import { gateway } from "../gateway_builder.ts";
import { pinnedTag } from "../names.ts";
import { floatingIPIsElsewhere } from "./floating_ip.ts";

const own = (world: World) => world.item("floatingips", ({ id }) => id !== "pinned");
const pinned = (world: World) => world.item("floatingips", ({ id }) => id === "pinned");
const pinning = gateway({ endpoint: { floatingIP: PINNED } });

Deno.test("floatingIP makes one of its own on the port when none is pinned", async () => {
  await using world = startWorld();
  await world.run();
  const { id, floating_ip_address: address, port_id } = own(world);
  assert.deepEqual(world.gateway().status?.floatingIP, { id, address, pinned: false });
  assert.equal(port_id, world.gateway().status?.port?.id);
});

Deno.test("floatingIP says which flag is missing when no external network is named", async () => {
  const { openstack } = {
    openstack: { allowedNetworkIDs: [], allowedFloatingIPs: [], allowedRoutedCIDRs: [] },
  };
  await using world = startWorld({ openstack: { ...openstack, networkID: "N" } });
  world.put(gateway());
  await world.reconcile();
  assert.match(world.conditionOf("FIPAttached")?.message ?? "", /--external-network-id/);
});

Deno.test("floatingIP scales to 0 and forgets the address when its own one is on a foreign port", async () => {
  await using world = startWorld();
  await world.run();
  own(world).port_id = "foreign";
  await world.reconcile();
  assert.equal(world.replicas(), 0);
  assert.equal(world.condition("FIPAttached"), "False/EnsureFIPFailed");
  assert.match(world.conditionOf("FIPAttached")?.message ?? "", /is on port foreign/);
  assert.equal(world.gateway().status?.floatingIP, undefined);
  // Nothing is rendered ahead: there is no address in the spec to render.
  assert.equal(world.condition("ConfigRendered"), "True/Rendered");
  assert.equal(own(world).port_id, "foreign");
});

Deno.test("floatingIP scales to 0 when another gateway has pinned the address and has it on its port", async () => {
  await using world = startWorld();
  await world.run(pinning);
  const tags = [pinnedTag(otherGateway("other"))];
  Object.assign(pinned(world), floatingIP("pinned", PINNED, { port_id: "others-port", tags }));
  await world.reconcile();
  assert.equal(world.replicas(), 0);
  assert.equal(world.condition("FIPAttached"), "False/EnsureFIPFailed");
  assert.match(world.conditionOf("FIPAttached")?.message ?? "", /already pinned .*uid-of-other/);
  assert.equal(world.gateway().status?.floatingIP, undefined);
  assert.deepEqual(pinned(world).tags, tags);
  assert.equal(pinned(world).port_id, "others-port");
});

Deno.test("floatingIP scales to 0 when another gateway has pinned its address and it is on no port", async () => {
  await using world = startWorld();
  await world.run(pinning);
  Object.assign(pinned(world), { port_id: null, tags: [pinnedTag(otherGateway("other"))] });
  await world.reconcile();
  assert.equal(world.replicas(), 0);
  assert.equal(world.gateway().status?.floatingIP, undefined);
});

Deno.test("floatingIP leaves a gateway running that wants an address which another has pinned and not in use", async () => {
  await using world = startWorld();
  await world.run();
  const before = world.gateway().status?.floatingIP;
  Object.assign(pinned(world), { tags: [pinnedTag(otherGateway("other"))] });
  world.edit({ endpoint: { floatingIP: PINNED } });
  await world.reconcile();
  assert.equal(world.condition("FIPAttached"), "False/EnsureFIPFailed");
  assert.equal(world.replicas(), 1);
  assert.deepEqual(world.gateway().status?.floatingIP, before);
});

Deno.test("floatingIP scales to 0 when the pinned address does not exist any more", async () => {
  await using world = startWorld();
  await world.run(pinning);
  world.double.items.floatingips = [];
  await world.reconcile();
  assert.equal(world.replicas(), 0);
  assert.match(world.conditionOf("FIPAttached")?.message ?? "", /does not exist in the project/);
  assert.equal(world.gateway().status?.floatingIP, undefined);
});

Deno.test("floatingIP leaves the gateway running when OpenStack answers 503, cuts or refuses", async () => {
  const faults = [{ status: 503 }, { status: 500 }, { cut: "before" as const }, { status: 403 }];
  for (const pin of [gateway(), pinning]) {
    for (const fault of faults) {
      await using world = startWorld();
      await world.run(pin);
      const before = world.gateway().status?.floatingIP;
      world.double.fail({ match: /GET \/v2.0\/floatingips/, times: 99, ...fault });
      await world.reconcile();
      assert.equal(world.condition("FIPAttached"), "False/EnsureFIPFailed");
      assert.equal(world.replicas(), 1, JSON.stringify(fault));
      assert.deepEqual(world.gateway().status?.floatingIP, before);
    }
  }
});

Deno.test("floatingIP asks again only after the time that OpenStack wants", async () => {
  await using world = startWorld();
  await world.run();
  world.double.fail({
    ...{ match: /GET \/v2.0\/floatingips/, times: 99, status: 503 },
    headers: { "retry-after": "120" },
  });
  const { requeueAfterMs } = await world.reconcile();
  assert.equal(requeueAfterMs > 119_000 && requeueAfterMs <= 120_000, true, String(requeueAfterMs));
});

Deno.test("floatingIP puts the pinned address back when somebody took it off without putting it elsewhere", async () => {
  await using world = startWorld();
  await world.run(pinning);
  pinned(world).port_id = null;
  await world.reconcile();
  assert.equal(world.replicas(), 1);
  assert.equal(pinned(world).port_id, world.gateway().status?.port?.id);
  assert.deepEqual(pinned(world).tags, [pinnedTag(pinning)]);
});

Deno.test("floatingIPIsElsewhere() says yes for a foreign port and for an address that is gone", async () => {
  await using world = startWorld();
  await world.run();
  assert.equal(await floatingIPIsElsewhere(world.context()), false);
  own(world).port_id = null;
  assert.equal(await floatingIPIsElsewhere(world.context()), false);
  own(world).port_id = "foreign";
  assert.equal(await floatingIPIsElsewhere(world.context()), true);
  world.double.items.floatingips = [];
  assert.equal(await floatingIPIsElsewhere(world.context()), true);
});

Deno.test("floatingIPIsElsewhere() says no when nobody can say, or the gateway never had one", async () => {
  await using world = startWorld();
  world.put(gateway());
  assert.equal(await floatingIPIsElsewhere(world.context()), false);
  await world.run();
  own(world).port_id = "foreign";
  world.double.fail({ match: /floatingips/, status: 404 });
  assert.equal(await floatingIPIsElsewhere(world.context()), false);
  world.double.fail({ match: /floatingips/, cut: "before" });
  assert.equal(await floatingIPIsElsewhere(world.context()), false);
  assert.deepEqual(world.now, NOW);
});
