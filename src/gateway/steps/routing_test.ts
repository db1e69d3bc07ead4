import assert from "node:assert/strict";
import type { IPsecGateway } from "../../api/ipsec_gateway.ts";
import { statusAnswer } from "../../kube/loopback_apiserver.ts";
import { cleanup } from "../cleanup.ts";
import { startWorld, type World } from "../context_builder.ts";
import { gateway, tunnel } from "../gateway_builder.ts";
import { remoteSubnets } from "./routing.ts";

const LOCAL = { localSubnets: ["10.1.0.0/16"] };
const FOREIGN = { destination: "172.16.0.0/16", nexthop: "10.0.0.99" };

function routed(remote: string[] = ["192.168.77.0/24"]): IPsecGateway {
  return gateway({ mode: "routed", tunnels: [tunnel({ ...LOCAL, remoteSubnets: remote })] });
}

const port = (world: World) => world.item("ports", ({ id }) => id !== "R-port");
const routes = (world: World) => world.item("routers").routes;
const pairs = (world: World) =>
  (port(world).allowed_address_pairs as { ip_address: string }[]).map((pair) => pair.ip_address);
const hop = (world: World) => world.gateway().status?.port?.fixedIP;
const routerCalls = (world: World) => world.double.seen(/\/v2.0\/routers\//).length;

function start(): World {
  const world = startWorld();
  world.item("routers").routes = [FOREIGN];
  return world;
}

Deno.test("remoteSubnets() names each once, sorted, those of children too", () => {
  const tunnels = [
    tunnel({ remoteSubnets: ["192.168.2.0/24", "192.168.1.0/24"] }),
    tunnel({ name: "b", children: [{ name: "c", remoteSubnets: ["192.168.1.0/24", "192.168.0.0/24"] }] }),
  ];
  assert.deepEqual(remoteSubnets(gateway({ tunnels })), [
    "192.168.0.0/24",
    "192.168.1.0/24",
    "192.168.2.0/24",
  ]);
});

Deno.test("routing sends the partners' subnets to the port, lets it carry them, and leaves others' routes", async () => {
  await using world = start();
  await world.run(routed(["192.168.78.0/24", "192.168.77.0/24"]));
  assert.equal(world.condition("RoutingReady"), "True/Routed");
  assert.deepEqual(routes(world), [
    FOREIGN,
    { destination: "192.168.77.0/24", nexthop: hop(world) },
    { destination: "192.168.78.0/24", nexthop: hop(world) },
  ]);
  assert.deepEqual(pairs(world), ["192.168.77.0/24", "192.168.78.0/24"]);

  world.edit({ tunnels: [tunnel({ ...LOCAL, remoteSubnets: ["192.168.78.0/24"] })] });
  await world.reconcile();
  assert.deepEqual(routes(world), [FOREIGN, { destination: "192.168.78.0/24", nexthop: hop(world) }]);
  assert.deepEqual(pairs(world), ["192.168.78.0/24"]);
});

Deno.test("routing asks the router once for each spec of mode nat, and no more", async () => {
  await using world = start();
  world.put(gateway());
  await world.reconcile();
  assert.equal(world.condition("RoutingReady"), "True/NotRequired");
  const calls = routerCalls(world);
  await world.reconcile();
  assert.equal(routerCalls(world), calls);
  assert.deepEqual(routes(world), [FOREIGN]);
});

Deno.test("routing takes routes and pairs away when the mode becomes nat, and goes on after a removal failed", async () => {
  await using world = start();
  await world.run(routed());
  world.edit({ mode: "nat" });
  world.double.fail({ match: /remove_extraroutes/, status: 409, times: 2 });
  for (let round = 0; round < 2; round++) {
    const { requeueAfterMs } = await world.reconcile();
    assert.equal(world.condition("RoutingReady"), "False/EnsureRoutingFailed");
    assert.equal(requeueAfterMs, 15_000);
    assert.deepEqual(routes(world), [FOREIGN, { destination: "192.168.77.0/24", nexthop: hop(world) }]);
  }
  await world.reconcile();
  assert.equal(world.condition("RoutingReady"), "True/NotRequired");
  assert.deepEqual(routes(world), [FOREIGN]);
  assert.deepEqual(pairs(world), []);
});

Deno.test("routing takes the routes to the old address away when the port was made anew", async () => {
  await using world = start();
  await world.run(routed());
  const old = hop(world);
  world.double.items.ports = world.items("ports").filter(({ id }) => id === "R-port");
  world.item("floatingips", ({ id }) => id !== "pinned").port_id = null;
  await world.reconcile();
  assert.notEqual(hop(world), old);
  assert.deepEqual(routes(world), [FOREIGN, { destination: "192.168.77.0/24", nexthop: hop(world) }]);
});

Deno.test("routing says LimitReached when the router or the port has no room", async () => {
  for (
    const [match, type] of [
      [/add_extraroutes/, "RoutesExhausted"],
      [/PUT \/v2.0\/ports\/[^/]+$/, "AllowedAddressPairExhausted"],
    ] as const
  ) {
    await using world = start();
    const body = { NeutronError: { type, message: "no room", detail: "" } };
    world.double.fail({ match, status: 409, body });
    world.put(routed());
    await world.reconcile();
    assert.equal(world.condition("RoutingReady"), "False/LimitReached");
    assert.equal(world.condition("ConfigRendered"), undefined);
  }
});

Deno.test("cleanup() takes the routes away when the controller was killed after routing and before the status", async () => {
  await using world = start();
  world.put(routed());
  // Killed: the API server sees nothing of us after that.
  world.intercept = ({ method }) =>
    method === "PATCH" && (routes(world) as unknown[]).length > 1
      ? statusAnswer(500, "InternalError")
      : undefined;
  await assert.rejects(world.reconcile(), /InternalError/);
  world.intercept = () => undefined;
  assert.equal((routes(world) as unknown[]).length, 2);
  assert.equal(world.condition("RoutingReady"), undefined);

  world.remove();
  world.double.detachReads = 0;
  let cleaned = await cleanup(world.context());
  for (let round = 0; cleaned.kind !== "gone" && round < 5; round++) cleaned = await cleanup(world.context());
  assert.deepEqual(cleaned, { kind: "gone" });
  assert.deepEqual(routes(world), [FOREIGN]);
  assert.deepEqual(world.items("ports").map(({ id }) => id), ["R-port"]);
  assert.deepEqual(world.items("security-groups"), []);
});
