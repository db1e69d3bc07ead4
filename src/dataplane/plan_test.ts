import assert from "node:assert/strict";
import { network, ranges, tunnelNetwork } from "./network_fixture.ts";
import { planOf, sharedRemotes } from "./plan.ts";

Deno.test("planOf() ends every remote subnet in an unreachable route of main when the driver is libipsec", () => {
  const plan = planOf(network({
    tunnels: [
      tunnelNetwork(),
      tunnelNetwork({ name: "b", ifId: 1043, remote: ranges("172.16.0.0/12", "192.0.2.9") }),
    ],
  }));
  assert.deepEqual(plan.routes.filter((route) => route.table === 254), [
    { type: "unreachable", table: 254, to: "172.16.0.0/12", metric: 9999 },
    { type: "unreachable", table: 254, to: "192.0.2.9", metric: 9999 },
    { type: "unreachable", table: 254, to: "192.168.77.0/24", metric: 9999 },
  ]);
  assert.deepEqual(plan.links, []);
  assert.deepEqual(plan.mtus, [{ device: "ipsec0", mtu: 1386 }]);
});

Deno.test("planOf() gives each tunnel its interface, table and rule when the driver is xfrm", () => {
  const plan = planOf(network({ driver: "xfrm" }));
  assert.deepEqual(plan.links, [{ name: "ipsec1042", ifId: 1042, mtu: 1386 }]);
  assert.deepEqual(plan.rules, [
    { priority: 100, from: "10.0.0.7", table: 100 },
    { priority: 200, to: "192.168.77.0/24", table: 11042 },
  ]);
  assert.deepEqual(plan.routes.filter((route) => route.table === 11042), [
    { type: "unreachable", table: 11042, to: "default", metric: 9999 },
    { type: "unicast", table: 11042, to: "192.168.77.0/24", device: "ipsec1042" },
  ]);
});

Deno.test("planOf() leads the uplink's source out by the uplink or nowhere", () => {
  for (const driver of ["xfrm", "libipsec"] as const) {
    assert.deepEqual(planOf(network({ driver })).routes.filter((route) => route.table === 100), [
      { type: "unreachable", table: 100, to: "default", metric: 9999 },
      { type: "unicast", table: 100, to: "10.0.0.0/24", device: "net1" },
      { type: "unicast", table: 100, to: "default", device: "net1", via: "10.0.0.1" },
    ]);
  }
});

Deno.test("planOf() puts an own address inside each local subnet when the driver is libipsec", () => {
  const addresses = (changes: Parameters<typeof network>[0]) =>
    planOf(network(changes)).addresses.map(({ address }) => address);
  assert.deepEqual(addresses({}), ["100.64.0.1/32"]);
  const routed = tunnelNetwork({ local: ranges("10.0.0.0/24", "10.9.0.0/16") });
  assert.deepEqual(addresses({ mode: "routed", tunnels: [routed] }), ["10.9.0.0/32"]);
  assert.deepEqual(addresses({ mode: "routed", driver: "xfrm", tunnels: [routed] }), []);
});

Deno.test("sharedRemotes() names what two tunnels both reach", () => {
  const a = tunnelNetwork({ remote: ranges("10.0.0.0/8") });
  const b = tunnelNetwork({ name: "b", remote: ranges("10.1.0.0/16", "192.0.2.0/24") });
  assert.deepEqual(sharedRemotes(network({ tunnels: [a, b] })), ["10.1.0.0/16"]);
  assert.deepEqual(sharedRemotes(network({ tunnels: [a] })), []);
});
