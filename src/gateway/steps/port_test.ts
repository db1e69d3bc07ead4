import assert from "node:assert/strict";
import { startWorld, type World } from "../context_builder.ts";
import { gateway } from "../gateway_builder.ts";
import { ownerTag } from "../names.ts";

const ports = (world: World) => world.items("ports").filter(({ id }) => id !== "R-port");

Deno.test("port makes one with the gateway's tag and group, and tells where it is", async () => {
  await using world = startWorld();
  world.put(gateway());
  await world.reconcile();
  const [port, ...more] = ports(world);
  assert.deepEqual(more, []);
  const { status } = world.gateway();
  assert.deepEqual(port?.tags, [ownerTag(gateway())]);
  assert.deepEqual(port?.security_groups, [status?.securityGroupID]);
  assert.deepEqual(status?.port, {
    id: port?.id,
    fixedIP: (port?.fixed_ips as { ip_address: string }[])[0]?.ip_address,
    prefixLength: 24,
    gatewayIP: "10.0.0.1",
    macAddress: port?.mac_address,
    mtu: 1450,
  });
});

Deno.test("port says which field and flag name the network when there is none", async () => {
  const openstack = { allowedNetworkIDs: [], allowedFloatingIPs: [], allowedRoutedCIDRs: [] };
  await using world = startWorld({ openstack });
  world.put(gateway());
  await world.reconcile();
  assert.equal(world.condition("PortReady"), "False/EnsurePortFailed");
  assert.match(world.conditionOf("PortReady")?.message ?? "", /spec\.openstack\.networkID .*--network-id/);
  assert.deepEqual(ports(world), []);
});

Deno.test("port refuses a subnet without a gateway", async () => {
  await using world = startWorld();
  world.item("subnets").gateway_ip = null;
  world.put(gateway());
  await world.reconcile();
  assert.equal(world.condition("PortReady"), "False/EnsurePortFailed");
  assert.match(world.conditionOf("PortReady")?.message ?? "", /has no gateway.*spec\.openstack\.subnetID/);
  assert.equal(world.condition("PortAttached"), undefined);
});

Deno.test("port says so and makes nothing when the quota is used up", async () => {
  await using world = startWorld();
  const body = {
    NeutronError: { type: "OverQuota", message: "Quota exceeded for resources: ['port'].", detail: "" },
  };
  world.double.fail({ match: /POST \/v2.0\/ports/, status: 409, body });
  world.put(gateway());
  const { requeueAfterMs } = await world.reconcile();
  assert.equal(world.condition("PortReady"), "False/EnsurePortFailed");
  assert.match(world.conditionOf("PortReady")?.message ?? "", /Quota exceeded/);
  assert.equal(requeueAfterMs, 15_000);
  assert.deepEqual(ports(world), []);
});

Deno.test("port keeps the old address in the status until its routes are gone", async () => {
  await using world = startWorld();
  await world.run();
  const old = world.gateway().status?.port?.fixedIP;
  world.item("routers").routes = [{ destination: "192.168.77.0/24", nexthop: old }];
  world.double.items.ports = world.items("ports").filter(({ id }) => id === "R-port");
  world.double.fail({ match: /remove_extraroutes/, status: 500 });
  await world.reconcile();
  assert.equal(world.condition("PortReady"), "False/EnsurePortFailed");
  assert.equal(world.gateway().status?.port?.fixedIP, old);
  await world.reconcile();
  assert.equal(world.condition("PortReady"), "True/PortReady");
  assert.deepEqual(world.item("routers").routes, []);
  assert.notEqual(world.gateway().status?.port?.fixedIP, old);
});
