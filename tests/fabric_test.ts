// The fabric, proved by objects made by hand: what Neutron and Nova say decides what packets do, within 5 s.
// Needs `./run lab up` (k8s and openstack); no operator.
//
// The path: ipo-ftpeer (203.0.113.251, on the external network) → floating IP → ipo-router → tap → node1 → ipo-ftvm,
// a namespace that takes the NIC out of the node as a pod's CNI would, and echoes UDP.

import assert from "node:assert/strict";
import { startCapture } from "./lab/capture.ts";
import { attempt, until } from "./lab/command.ts";
import type { Cloud } from "./lab/cloud.ts";
import { gateway, PEER_ADDRESS, startFlow } from "./lab/fabric/by_hand.ts";

/** The promise that issue and design make: what Neutron says holds for packets within this. */
const LIMIT_MS = 5000;

/** Does something to the objects and asserts that the flow stops in time, and then stays silent. */
async function stops(flow: Awaited<ReturnType<typeof startFlow>>, what: string, act: () => Promise<unknown>) {
  await flow.answered(LIMIT_MS);
  await act();
  const after = await flow.silence(LIMIT_MS);
  // deno-lint-ignore no-console -- a measured number belongs into the test's output
  console.log(`${what}: silent after ${(after / 1000).toFixed(2)} s`);
  assert.ok(after < LIMIT_MS);
}

/** Does something to the objects and asserts that the flow is answered in time. */
async function flows(flow: Awaited<ReturnType<typeof startFlow>>, what: string, act: () => Promise<unknown>) {
  await act();
  const after = await flow.answered(LIMIT_MS);
  // deno-lint-ignore no-console -- as above
  console.log(`${what}: flows after ${(after / 1000).toFixed(2)} s`);
  assert.ok(after < LIMIT_MS);
}

/** Closes a group's egress: with it open a gateway that sends by itself would open the state again. */
async function closeEgress(cloud: Cloud, group: string): Promise<void> {
  for (
    const rule of await cloud.list("security-group-rules", { security_group_id: group, direction: "egress" })
  ) {
    await cloud.remove("security-group-rules", rule.id);
  }
}

Deno.test("fabric carries what the group allows through a floating IP, and nothing else", async () => {
  await using gw = await gateway();
  for (const port of [500, 4500]) {
    await using flow = await startFlow(gw.fip.floating_ip_address, port);
    await flow.answered(LIMIT_MS);
  }
  const silent = [
    ["socat", "-T", "1", "-t", "1", "-", `UDP:${gw.fip.floating_ip_address}:4501`],
    ["socat", "-T", "1", "-t", "1", "-", `UDP:${gw.fip.floating_ip_address}:4500,bind=203.0.113.252`],
  ];
  for (const argv of silent) {
    assert.equal((await attempt(argv, { in: "ns:ipo-ftpeer", input: "x" })).stdout, "", argv.join(" "));
  }
  const ping = ["ping", "-c", "2", "-i", "0.2", "-W", "1", gw.fip.floating_ip_address];
  assert.notEqual((await attempt(ping, { in: "ns:ipo-ftpeer" })).code, 0);
  // The same three are answered once the group says so: they could have been seen.
  await gw.allow({ protocol: "udp", port_range_min: 4501, port_range_max: 4501 });
  await gw.allow({ protocol: "icmp" });
  await until("ping is answered", async () => (await attempt(ping, { in: "ns:ipo-ftpeer" })).code === 0, {
    timeoutMs: LIMIT_MS,
  });
  assert.equal((await attempt(silent[0]!, { in: "ns:ipo-ftpeer", input: "x" })).stdout, "x");
});

Deno.test("fabric stops UDP 4500 when its rule is deleted, and carries it when it is back", async () => {
  await using gw = await gateway();
  await closeEgress(gw.cloud, gw.group.id);
  await using flow = await startFlow(gw.fip.floating_ip_address, 4500);
  await stops(flow, "rule deleted", () => gw.cloud.remove("security-group-rules", gw.rules[4500]!));
  await flows(
    flow,
    "rule put back",
    () => gw.allow({ protocol: "udp", port_range_min: 4500, port_range_max: 4500 }),
  );
});

Deno.test("fabric stops a flow when the floating IP moves to another port, and carries it when it is back", async () => {
  await using gw = await gateway();
  const other = await gw.cloud.create("ports", {
    network_id: gw.port.network_id,
    name: "fabric-test-other",
    security_groups: [gw.group.id],
  });
  try {
    await using flow = await startFlow(gw.fip.floating_ip_address, 4500);
    await stops(
      flow,
      "FIP moved away",
      () => gw.cloud.update("floatingips", gw.fip.id, { port_id: other.id }),
    );
    await flows(
      flow,
      "FIP moved back",
      () => gw.cloud.update("floatingips", gw.fip.id, { port_id: gw.port.id }),
    );
  } finally {
    await gw.cloud.remove("ports", other.id);
  }
});

Deno.test("fabric unplugs a detached port, and plugs it when it is attached again, to another node too", async () => {
  await using gw = await gateway();
  await using flow = await startFlow(gw.fip.floating_ip_address, 4500);
  await stops(flow, "port detached", () => gw.detach());
  assert.equal((await attempt(["ip", "-n", "ipo-ftvm", "link", "show", "net1"])).code, 1);
  await flows(flow, "port attached again", () => gw.attach("node1"));
  await stops(flow, "port detached", () => gw.detach());
  await flows(flow, "port attached to the other node", () => gw.attach("node2"));
});

Deno.test("fabric plugs a port again when its NIC has died with a namespace", async () => {
  await using gw = await gateway();
  await using flow = await startFlow(gw.fip.floating_ip_address, 4500);
  await stops(flow, "namespace gone", () => gw.dropHost());
  await flows(flow, "NIC plugged again", () => gw.takeNic("node1"));
});

Deno.test("fabric lets a port send from its own addresses only, until it has an address pair", async () => {
  await using gw = await gateway();
  const wires = [{ name: "peer", place: "ns:ipo-ftpeer", device: "wan", beaconTo: "203.0.113.1" } as const];
  await attempt(["ip", "-n", "ipo-ftvm", "addr", "add", "10.66.0.5/32", "dev", "lo"]);
  /** Datagrams that reach the peer when the VM sends three from an address. */
  const reach = async (from: string) => {
    await using capture = await startCapture("udp port 7000", { wires });
    for (let i = 0; i < 3; i++) {
      const to = `UDP-SENDTO:${PEER_ADDRESS}:7000,bind=${from}`;
      await attempt(["socat", "-u", "-", to], { in: "ns:ipo-ftvm", input: "x" });
    }
    return (await capture.stop()).packets.length;
  };
  assert.equal(await reach(gw.address), 3);
  assert.equal(await reach("10.66.0.5"), 0);
  await gw.cloud.update("ports", gw.port.id, { allowed_address_pairs: [{ ip_address: "10.66.0.0/24" }] });
  await until("the pair holds", async () => await reach("10.66.0.5") > 0, { timeoutMs: LIMIT_MS });
});

Deno.test("fabric routes a router's extra route to the port that is its next hop", async () => {
  await using gw = await gateway();
  const [router] = await gw.cloud.list("routers", { name: "tenant-router" });
  assert.ok(router);
  // A host behind the gateway, reached from the router's other side: the router itself stands for it.
  await attempt(["ip", "-n", "ipo-ftvm", "addr", "add", "10.66.0.5/32", "dev", "lo"]);
  const pair = { allowed_address_pairs: [{ ip_address: "10.66.0.0/24" }] };
  await gw.cloud.update("ports", gw.port.id, pair);
  await gw.allow({ protocol: "icmp" });
  const route = { router: { routes: [{ destination: "10.66.0.0/24", nexthop: gw.address }] } };
  const ping = ["ping", "-c", "1", "-W", "1", "-I", "203.0.113.251", "10.66.0.5"];
  const answered = async () => (await attempt(ping, { in: "ns:ipo-ftpeer" })).code === 0;
  assert.equal(await answered(), false);
  await gw.cloud.call("network", "PUT", `/routers/${router.id}/add_extraroutes`, route);
  try {
    await until("the route leads to the port", answered, { timeoutMs: LIMIT_MS });
  } finally {
    await gw.cloud.call("network", "PUT", `/routers/${router.id}/remove_extraroutes`, route);
  }
  await until("the route is gone", async () => !await answered(), { timeoutMs: LIMIT_MS });
});
