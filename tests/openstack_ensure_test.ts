// Groups, ports, attachments and routes of the lab's real Neutron and Nova; judged by a client of its own (lab/cloud.ts).
import assert from "node:assert/strict";
import { attachPort, detachPort } from "../src/openstack/ensure/attachment.ts";
import { describeNetwork } from "../src/openstack/ensure/network.ts";
import { markedDescription } from "../src/openstack/ensure/owner.ts";
import { deletePort, ensureAddressPairs, ensurePort, findPorts } from "../src/openstack/ensure/port.ts";
import { ensureRoutes } from "../src/openstack/ensure/routes.ts";
import { deleteSecurityGroup, ensureSecurityGroup } from "../src/openstack/ensure/security_group.ts";
import { resolveServer } from "../src/openstack/ensure/server.ts";
import { OpenStackError } from "../src/openstack/errors.ts";
import { body, IKE, place, rulesOf, until } from "./openstack_place.ts";

Deno.test("ensureSecurityGroup() makes one group with the tag, its rules and the default egress, and then nothing more", async () => {
  await using at = await place();
  const first = await ensureSecurityGroup(at.os, at.owner, { rules: IKE });
  const again = await ensureSecurityGroup(at.os, at.owner, { rules: IKE });
  assert.equal(again.id, first.id);
  const groups = await at.judge.list("security-groups", { name: at.owner.name });
  assert.equal(groups.length, 1);
  assert.deepEqual(groups[0]!.tags, [at.owner.tag]);
  assert.equal(groups[0]!.description, markedDescription(at.owner));
  const rules = await rulesOf(at.judge, first.id);
  assert.deepEqual(
    rules.map((rule) =>
      `${rule.direction} ${rule.ethertype} ${rule.protocol} ${rule.port_range_min} ${rule.remote_ip_prefix}`
    )
      .sort(),
    [
      "egress IPv4 null null null",
      "egress IPv6 null null null",
      "ingress IPv4 udp 4500 203.0.113.250/32",
      "ingress IPv4 udp 500 203.0.113.250/32",
    ],
  );
});

Deno.test("ensureSecurityGroup() removes foreign rules and adds missing ones, without a new group", async () => {
  await using at = await place();
  const { id } = await ensureSecurityGroup(at.os, at.owner, { rules: IKE });
  const before = await rulesOf(at.judge, id);
  await at.judge.create("security-group-rules", {
    security_group_id: id,
    direction: "ingress",
    ethertype: "IPv4",
    protocol: "tcp",
    port_range_min: 22,
    port_range_max: 22,
  });
  await at.judge.remove("security-group-rules", before.find((rule) => rule.port_range_min === 4500)!.id);
  await at.judge.remove(
    "security-group-rules",
    before.find((rule) => rule.direction === "egress" && rule.ethertype === "IPv4")!.id,
  );
  assert.equal((await ensureSecurityGroup(at.os, at.owner, { rules: IKE })).id, id);
  const after = await rulesOf(at.judge, id);
  const kept = before.find((rule) => rule.port_range_min === 500)!.id;
  assert.ok(after.some((rule) => rule.id === kept), "the rule that was right is untouched");
  assert.deepEqual(after.map((rule) => rule.port_range_min).sort(), [4500, 500, null, null].sort());
});

Deno.test("ensureSecurityGroup() reduces identical rules to one when a race made several", async () => {
  await using at = await place();
  const { id } = await ensureSecurityGroup(at.os, at.owner, { rules: [] });
  // Neutron makes several of one rule only when asked at once, so ask until it does.
  const twice = await until("two identical rules", async () => {
    const rule = { ...body(IKE[0]!), security_group_id: id };
    await Promise.allSettled(Array.from({ length: 8 }, () => at.judge.create("security-group-rules", rule)));
    const made = (await rulesOf(at.judge, id)).filter((one) => one.direction === "ingress");
    if (made.length > 1) return made;
    for (const one of made) await at.judge.remove("security-group-rules", one.id);
    return undefined;
  });
  await ensureSecurityGroup(at.os, at.owner, { rules: IKE });
  const left = (await rulesOf(at.judge, id)).filter((one) => one.port_range_min === 500);
  assert.equal(left.length, 1);
  assert.ok(twice.some((one) => one.id === left[0]!.id), "one of them stayed");
});

Deno.test("ensureSecurityGroup() takes SecurityGroupRuleExists for success when the rule is written differently", async () => {
  await using at = await place();
  const { id } = await ensureSecurityGroup(at.os, at.owner, { rules: [] });
  await at.judge.create("security-group-rules", { ...body(IKE[0]!), protocol: "17", security_group_id: id });
  await ensureSecurityGroup(at.os, at.owner, { rules: IKE });
  const ingress = (await rulesOf(at.judge, id)).filter((one) => one.direction === "ingress");
  assert.deepEqual(ingress.map((one) => one.port_range_min).sort(), [4500, 500]);
});

Deno.test("ensureSecurityGroup() adopts exactly one untagged twin", async () => {
  await using at = await place();
  const fields = { name: at.owner.name, description: markedDescription(at.owner) };
  const twins = [
    await at.judge.create("security-groups", fields),
    await at.judge.create("security-groups", fields),
  ];
  const stranger = await at.judge.create("security-groups", { ...fields, description: "somebody else's" });
  try {
    const { id } = await ensureSecurityGroup(at.os, at.owner, { rules: IKE });
    assert.ok(twins.some((twin) => twin.id === id));
    const groups = await at.judge.list("security-groups", { name: at.owner.name });
    assert.equal(groups.length, 3, "none was made");
    assert.deepEqual(groups.filter((group) => group.tags.length > 0).map((group) => group.id), [id]);
    await deleteSecurityGroup(at.os, at.owner);
    const left = await at.judge.list("security-groups", { name: at.owner.name });
    assert.deepEqual(
      left.map((group) => group.id),
      [stranger.id],
      "both twins are deleted, the stranger's is not",
    );
  } finally {
    await at.judge.remove("security-groups", stranger.id);
  }
});

Deno.test("ensureSecurityGroup() keeps foreign tags when it adopts", async () => {
  await using at = await place();
  const twin = await at.judge.create("security-groups", {
    name: at.owner.name,
    description: markedDescription(at.owner),
  });
  await at.judge.call("network", "PUT", `/security-groups/${twin.id}/tags`, { tags: ["cost=7", "team/a"] });
  await ensureSecurityGroup(at.os, at.owner, { rules: [] });
  assert.deepEqual([...(await at.judge.get("security-groups", twin.id)).tags].sort(), [
    "cost=7",
    at.owner.tag,
    "team/a",
  ]);
});

Deno.test("ensureSecurityGroup() creates nothing and names the quota when that is used up", async () => {
  await using at = await place();
  const filler: string[] = [];
  try {
    for (;;) {
      try {
        filler.push((await at.judge.create("security-groups", { name: "filler" })).id);
      } catch {
        break;
      }
    }
    const before = (await at.judge.list("security-groups")).length;
    await assert.rejects(ensureSecurityGroup(at.os, at.owner, { rules: IKE }), (error) => {
      assert.ok(error instanceof OpenStackError);
      assert.equal(error.type, "OverQuota");
      assert.match(error.message, new RegExp(`security group of ${at.owner.name}.*quota`));
      return true;
    });
    assert.equal((await at.judge.list("security-groups")).length, before);
  } finally {
    for (const id of filler) await at.judge.remove("security-groups", id);
  }
});

Deno.test("ensurePort() makes one port with the group and says what the pod needs of it", async () => {
  await using at = await place();
  const port = await at.port();
  assert.deepEqual(await at.port(), port);
  const [seen, ...more] = await at.judge.list("ports", { name: at.owner.name });
  assert.equal(more.length, 0);
  assert.deepEqual(seen!.tags, [at.owner.tag]);
  assert.equal(seen!.security_groups.length, 1);
  const network = await at.judge.get("networks", at.networkID);
  assert.deepEqual(port, {
    id: seen!.id,
    fixedIP: seen!.fixed_ips[0]!.ip_address,
    prefixLength: 24,
    gatewayIP: "10.0.0.1",
    macAddress: seen!.mac_address,
    mtu: network.mtu,
    deviceID: "",
  });
});

Deno.test("ensurePort() and ensureAddressPairs() converge groups and pairs, and leave pairs alone when none are given", async () => {
  await using at = await place();
  const port = await at.port();
  await ensureAddressPairs(at.os, at.owner, { portID: port.id, pairs: ["10.9.0.0/24", "10.8.0.1"] });
  const pairs = async () =>
    (await at.judge.get("ports", port.id)).allowed_address_pairs.map((one) => one.ip_address);
  assert.deepEqual((await pairs()).sort(), ["10.8.0.1", "10.9.0.0/24"]);
  await at.port();
  assert.equal((await pairs()).length, 2);
  await at.judge.update("ports", port.id, { security_groups: [], admin_state_up: false });
  await at.port();
  const seen = await at.judge.get("ports", port.id);
  assert.equal(seen.security_groups.length, 1);
  assert.equal(seen.admin_state_up, true);
  await ensureAddressPairs(at.os, at.owner, { portID: port.id, pairs: [] });
  assert.deepEqual(await pairs(), []);
});

Deno.test("ensurePort() names the network or subnet that does not exist", async () => {
  await using at = await place();
  const unknown = crypto.randomUUID();
  await assert.rejects(
    ensurePort(at.os, at.owner, { networkID: unknown, securityGroupID: unknown }),
    new RegExp(`Cannot use network ${unknown}.*404`),
  );
  await assert.rejects(
    describeNetwork(at.os, { networkID: at.networkID, externalNetworkID: at.networkID }),
    /it is not external/,
  );
  await assert.rejects(
    describeNetwork(at.os, { networkID: at.networkID, subnetID: unknown }),
    new RegExp(`Cannot use subnet ${unknown}`),
  );
});

Deno.test("attachPort() attaches, moves to another server only after the detach, and detachPort() ends it", async () => {
  await using at = await place();
  const port = await at.port();
  const [one, two] = [await at.judge.server("node-1"), await at.judge.server("node-2")];
  const attach = (serverID: string) => attachPort(at.os, at.owner, { portID: port.id, serverID });
  assert.deepEqual(await attach(one.id), { state: "attached", why: "" });
  assert.deepEqual(await attach(one.id), { state: "attached", why: "" });
  assert.equal((await at.port()).deviceID, one.id);
  const moving = await attach(two.id);
  assert.equal(moving.state, "waiting");
  assert.match(moving.why, new RegExp(one.id));
  await until(
    "the port on the other server",
    async () => (await attach(two.id)).state === "attached" ? true : undefined,
  );
  assert.equal((await at.judge.get("ports", port.id)).device_id, two.id);
  await until(
    "the port on no server",
    async () =>
      (await detachPort(at.os, at.owner, { portID: port.id })).state === "detached" ? true : undefined,
  );
  assert.equal((await at.judge.get("ports", port.id)).device_id, "");
  assert.equal((await detachPort(at.os, at.owner, { portID: crypto.randomUUID() })).state, "detached");
});

Deno.test("attachPort() says attached only of the server that has the port when two calls race for it", async () => {
  await using at = await place();
  const port = await at.port();
  const servers = [await at.judge.server("node-1"), await at.judge.server("node-2")];
  const attach = (server: { id: string }, portID = port.id) =>
    attachPort(at.os, at.owner, { portID, serverID: server.id });
  await Promise.allSettled(servers.map((server) => attach(server)));
  const { device_id: winner } = await at.judge.get("ports", port.id);
  const [has, hasNot] = winner === servers[0]!.id ? servers : servers.toReversed();
  assert.equal((await attach(has!)).state, "attached");
  assert.equal((await attach(hasNot!)).state, "waiting");
  // Nova may have told the port's server that it failed, and then never detaches: a new port is the way out of that.
  const moved = async () => (await attach(hasNot!)).state === "attached" ? true : undefined;
  try {
    await until("the port on the other server", moved, 5_000);
  } catch {
    await deletePort(at.os, at.owner);
    assert.equal((await attach(hasNot!, (await at.port()).id)).state, "attached");
  }
});

Deno.test("attachPort() names port, owner and server when the server does not exist", async () => {
  await using at = await place();
  const port = await at.port();
  const serverID = crypto.randomUUID();
  await assert.rejects(
    attachPort(at.os, at.owner, { portID: port.id, serverID }),
    new RegExp(`Cannot attach port ${port.id} of ${at.owner.name} to server ${serverID}.*404`),
  );
});

Deno.test("deletePort() deletes a port that is attached", async () => {
  await using at = await place();
  const port = await at.port();
  const server = await at.judge.server("node-1");
  await attachPort(at.os, at.owner, { portID: port.id, serverID: server.id });
  assert.deepEqual((await findPorts(at.os, at.owner)).map((one) => one.deviceID), [server.id]);
  assert.deepEqual(await deletePort(at.os, at.owner), { deleted: [port.id] });
  assert.deepEqual(await deletePort(at.os, at.owner), { deleted: [] });
});

Deno.test("resolveServer() finds by provider id, else by exact name", async () => {
  await using at = await place();
  const server = await at.judge.server("node-1");
  const found = { kind: "found", id: server.id, name: "node-1", status: "ACTIVE" };
  const resolve = (nodeName: string, providerID?: string) =>
    resolveServer(at.os, { nodeName, ...(providerID === undefined ? {} : { providerID }) });
  assert.deepEqual(await resolve("other", `openstack:///${server.id}`), found);
  assert.deepEqual(await resolve("other", `openstack://RegionOne/${server.id}`), found);
  assert.deepEqual(await resolve("node-1"), found);
  for (const name of ["node", "NODE-1", "node.1", "node-[12]", "(", "node-1\\"]) {
    assert.equal((await resolve(name)).kind, "missing", name);
  }
  assert.equal((await resolve("x", `openstack:///${crypto.randomUUID()}`)).kind, "missing");
  assert.equal((await resolve("node-1", "aws:///i-1")).kind, "missing");
});

Deno.test("ensureRoutes() adds and removes routes by its next hop and leaves the others", async () => {
  await using at = await place();
  const port = await at.port();
  const [router] = await at.judge.list("routers");
  const foreign = { destination: "10.77.0.0/24", nexthop: "10.0.0.2" };
  await at.judge.update("routers", router!.id, { routes: [...router!.routes, foreign] });
  const ensure = (destinations: string[]) =>
    ensureRoutes(at.os, at.owner, { networkID: at.networkID, nexthop: port.fixedIP, destinations });
  const there = async () =>
    (await at.judge.get("routers", router!.id)).routes.map((one) => one.destination).sort();
  try {
    assert.deepEqual(await ensure(["192.168.77.0/24", "192.168.78.0/24"]), {
      routerID: router!.id,
      added: ["192.168.77.0/24", "192.168.78.0/24"],
      removed: [],
    });
    assert.deepEqual(await there(), ["10.77.0.0/24", "192.168.77.0/24", "192.168.78.0/24"]);
    const changed = await ensure(["192.168.78.0/24", "192.168.79.0/24"]);
    assert.deepEqual([changed.added, changed.removed], [["192.168.79.0/24"], ["192.168.77.0/24"]]);
    assert.deepEqual(await there(), ["10.77.0.0/24", "192.168.78.0/24", "192.168.79.0/24"]);
    await ensure([]);
    assert.deepEqual(await there(), ["10.77.0.0/24"]);
    const many = Array.from({ length: 40 }, (_, index) => `192.168.${index + 100}.0/24`);
    await assert.rejects(ensure(many), (error) => {
      assert.ok(error instanceof OpenStackError);
      assert.equal(error.type, "RoutesExhausted");
      return true;
    });
  } finally {
    await at.judge.update("routers", router!.id, { routes: router!.routes });
  }
});
