import assert from "node:assert/strict";
import { startWorld, type World } from "../context_builder.ts";
import { gateway, tunnel } from "../gateway_builder.ts";
import { gatewayRules } from "./security_group.ts";

const peers = new Map([["berlin", ["203.0.113.250"]]]);

/** The rules as "protocol ports from prefix". */
function told(rules: ReturnType<typeof gatewayRules>): string[] {
  return rules.map(({ protocol = "any", portMin, remoteIPPrefix }) =>
    `${protocol} ${portMin ?? "any"} from ${remoteIPPrefix}`
  );
}

Deno.test("gatewayRules() lets IKE and NAT traversal in from each peer's address, sorted", () => {
  const tunnels = [
    tunnel({ name: "paris", peer: { address: "vpn.example.org", port: 500 } }),
    tunnel(),
  ];
  const both = new Map([...peers, ["paris", ["198.51.100.2", "198.51.100.1"]]]);
  assert.deepEqual(told(gatewayRules(gateway({ tunnels }), both)), [
    "udp 500 from 198.51.100.1/32",
    "udp 4500 from 198.51.100.1/32",
    "udp 500 from 198.51.100.2/32",
    "udp 4500 from 198.51.100.2/32",
    "udp 500 from 203.0.113.250/32",
    "udp 4500 from 203.0.113.250/32",
  ]);
});

Deno.test("gatewayRules() takes sourceCIDRs instead of the peer's address when they are given", () => {
  const peer = { address: "203.0.113.250", port: 500, sourceCIDRs: ["198.51.100.0/24"] };
  assert.deepEqual(told(gatewayRules(gateway({ tunnels: [tunnel({ peer })] }), peers)), [
    "udp 500 from 198.51.100.0/24",
    "udp 4500 from 198.51.100.0/24",
  ]);
});

Deno.test("gatewayRules() lets the local subnets in when the mode is routed, and not when it is nat", () => {
  const tunnels = [tunnel({ localSubnets: ["10.2.0.0/16", "10.1.0.0/16"] })];
  assert.deepEqual(told(gatewayRules(gateway({ mode: "routed", tunnels }), peers)).slice(2), [
    "any any from 10.1.0.0/16",
    "any any from 10.2.0.0/16",
  ]);
  assert.equal(gatewayRules(gateway({ tunnels }), peers).length, 2);
});

const prefixes = (world: World) =>
  world.items("security-group-rules").filter(({ direction }) => direction === "ingress")
    .map((rule) => `${rule.port_range_min} ${rule.remote_ip_prefix}`).sort();

Deno.test("securityGroup follows a peer whose address changes", async () => {
  await using world = startWorld();
  world.put(gateway());
  await world.reconcile();
  assert.deepEqual(prefixes(world), ["4500 203.0.113.250/32", "500 203.0.113.250/32"]);
  world.edit({ tunnels: [tunnel({ peer: { address: "198.51.100.7", port: 500 } })] });
  await world.reconcile();
  assert.deepEqual(prefixes(world), ["4500 198.51.100.7/32", "500 198.51.100.7/32"]);
  assert.equal(world.items("security-groups").length, 1);
});

Deno.test("securityGroup names the failure in PortReady when Neutron refuses", async () => {
  await using world = startWorld();
  world.double.fail({ match: /POST \/v2.0\/security-groups/, status: 503, times: 9 });
  world.put(gateway());
  await world.reconcile();
  assert.equal(world.condition("PortReady"), "False/EnsureSecurityGroupFailed");
  assert.match(world.conditionOf("PortReady")?.message ?? "", /security group of ipsec-tenant-gw/);
  assert.deepEqual(world.items("ports").map(({ id }) => id), ["R-port"]);
});
