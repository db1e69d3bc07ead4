import assert from "node:assert/strict";
import type { FloatingIP, Port, Rule } from "../cloud.ts";
import { match, staleFlows, writeRules } from "./rules.ts";
import { extraRoutes, routerAddresses, tap, type World } from "./world.ts";

function rule(fields: Partial<Rule> = {}): Rule {
  return {
    id: "r1",
    security_group_id: "g1",
    direction: "ingress",
    ethertype: "IPv4",
    protocol: "udp",
    port_range_min: 4500,
    port_range_max: 4500,
    remote_ip_prefix: "203.0.113.250/32",
    remote_group_id: null,
    ...fields,
  };
}

function port(fields: Partial<Port> = {}): Port {
  return {
    id: "0a1b2c3d-4e5f-6789-aaaa-000000000001",
    name: "p",
    description: "",
    tags: [],
    network_id: "net00001-x",
    mac_address: "fa:16:3e:00:00:01",
    admin_state_up: true,
    device_id: "server",
    device_owner: "compute:nova",
    security_groups: ["g1"],
    port_security_enabled: true,
    fixed_ips: [{ subnet_id: "s1", ip_address: "10.0.0.23" }],
    allowed_address_pairs: [],
    ...fields,
  };
}

function fip(fields: Partial<FloatingIP> = {}): FloatingIP {
  return {
    id: "f1",
    description: "",
    tags: [],
    floating_ip_address: "203.0.113.140",
    fixed_ip_address: "10.0.0.23",
    port_id: port().id,
    revision_number: 1,
    ...fields,
  };
}

function world(fields: Partial<World> = {}, rules: readonly Rule[] = [rule()]): World {
  return {
    networks: [
      { id: "net00001-x", name: "tenant-net", mtu: 1450, subnets: ["s1"], "router:external": false },
      { id: "ext00001-x", name: "external", mtu: 1500, subnets: ["s2"], "router:external": true },
    ],
    subnets: [
      {
        id: "s1",
        name: "s",
        network_id: "net00001-x",
        cidr: "10.0.0.0/24",
        ip_version: 4,
        gateway_ip: "10.0.0.1",
      },
      {
        id: "s2",
        name: "e",
        network_id: "ext00001-x",
        cidr: "203.0.113.0/24",
        ip_version: 4,
        gateway_ip: "203.0.113.1",
      },
    ],
    routers: [{
      id: "router",
      name: "r",
      routes: [{ destination: "192.168.77.0/24", nexthop: "10.0.0.23" }],
      external_gateway_info: { external_fixed_ips: [{ ip_address: "203.0.113.61" }] },
    }],
    servers: [{ id: "server", name: "node-1" }],
    ports: [
      port(),
      port({
        id: "ffffffff-0000-0000-0000-000000000000",
        device_id: "router",
        device_owner: "network:router_interface",
        fixed_ips: [{ subnet_id: "s1", ip_address: "10.0.0.1" }],
      }),
    ],
    floatingips: [fip()],
    groups: [{ id: "g1", name: "g", description: "", tags: [], security_group_rules: rules }],
    ...fields,
  };
}

Deno.test("match() writes each kind of rule as nft does", () => {
  const member = port({
    id: "b",
    security_groups: ["g2"],
    fixed_ips: [{ subnet_id: "s1", ip_address: "10.0.0.9" }],
  });
  const cases: [Partial<Rule>, string | undefined][] = [
    [{}, "ip saddr 203.0.113.250/32 udp dport 4500-4500"],
    [{ direction: "egress", protocol: "17" }, "ip daddr 203.0.113.250/32 udp dport 4500-4500"],
    [
      { protocol: "tcp", port_range_min: null, port_range_max: null, remote_ip_prefix: null },
      "meta l4proto tcp",
    ],
    [
      { protocol: "icmp", port_range_min: 8, port_range_max: 0, remote_ip_prefix: null },
      "ip protocol icmp icmp type 8 icmp code 0",
    ],
    [{ protocol: null, port_range_min: null, port_range_max: null, remote_ip_prefix: null }, ""],
    [
      { protocol: "50", port_range_min: null, port_range_max: null, remote_ip_prefix: null },
      "ip protocol 50",
    ],
    [{ remote_ip_prefix: null, remote_group_id: "g2" }, "ip saddr { 10.0.0.9 } udp dport 4500-4500"],
    [{ remote_ip_prefix: null, remote_group_id: "g3" }, undefined],
    [{ ethertype: "IPv6" }, undefined],
  ];
  for (const [fields, expected] of cases) assert.equal(match(rule(fields), [member]), expected);
});

Deno.test("writeRules() drops what no rule names, and ties addresses to the port", () => {
  const pair = { ip_address: "192.168.77.0/24", mac_address: "fa:16:3e:00:00:01" };
  const gateway = port({ allowed_address_pairs: [pair] });
  const { text } = writeRules(world(), [gateway]);
  const name = tap(gateway);
  assert.match(
    text,
    new RegExp(
      `chain in-${name} \\{\\n +ip saddr 203.0.113.250/32 udp dport 4500-4500 accept\\n +counter drop`,
    ),
  );
  assert.match(text, new RegExp(`chain out-${name} \\{\\n +counter drop`));
  assert.match(text, /arp saddr ip 10\.0\.0\.23 accept/);
  assert.match(text, /ip saddr 192\.168\.77\.0\/24 accept/);
  assert.match(text, new RegExp(`ip daddr 192\\.168\\.77\\.0/24 goto in-${name}`));
  assert.match(text, /ip daddr 203\.0\.113\.140 dnat ip to 10\.0\.0\.23/);
  assert.match(text, /oifname "br-ext" ip saddr 10\.0\.0\.0\/24 snat ip to 203\.0\.113\.61/);
});

Deno.test("writeRules() filters nothing of a port without port security", () => {
  const { text, ports } = writeRules(world(), [port({ port_security_enabled: false, security_groups: [] })]);
  assert.doesNotMatch(text, /chain in-tap/);
  assert.equal(ports.size, 0);
});

Deno.test("staleFlows() names the flows of a rule that went, and none for a rule that came", () => {
  const one = writeRules(world(), [port()]);
  const two = writeRules(world({}, [rule(), rule({ id: "r2", port_range_min: 500, port_range_max: 500 })]), [
    port(),
  ]);
  assert.deepEqual(staleFlows(one, two), []);
  assert.deepEqual(staleFlows(two, one), [["-s", "10.0.0.23"], ["-r", "10.0.0.23"], ["-d", "10.0.0.23"]]);
});

Deno.test("staleFlows() names both ends of a floating IP that moved, and an unplugged port", () => {
  const before = writeRules(world(), [port()]);
  const moved = writeRules(world({ floatingips: [fip({ fixed_ip_address: "10.0.0.24" })] }), [port()]);
  const named = staleFlows(before, moved).map((flow) => flow.join(" "));
  for (const flow of ["-d 203.0.113.140", "-s 10.0.0.23", "-r 10.0.0.23", "-s 10.0.0.24"]) {
    assert.ok(named.includes(flow));
  }
  assert.ok(staleFlows(before, writeRules(world(), [])).some((flow) => flow.join(" ") === "-s 10.0.0.23"));
});

Deno.test("routerAddresses() holds gateways, the router's address and associated floating IPs", () => {
  assert.deepEqual(routerAddresses(world()), [
    "br-ext 203.0.113.1/24",
    "br-ext 203.0.113.140/32",
    "br-ext 203.0.113.61/32",
    "br-net00001 10.0.0.1/24",
  ]);
});

Deno.test("extraRoutes() keeps one next hop per destination", () => {
  const [router] = world().routers;
  const second = { ...router!, id: "r2", routes: [{ destination: "192.168.77.0/24", nexthop: "10.0.0.99" }] };
  assert.deepEqual(extraRoutes(world({ routers: [router!, second] })), ["192.168.77.0/24 10.0.0.23"]);
});
