// Every ensure function against the lab's real Keystone, Neutron and Nova; judged by a client of its own (lab/cloud.ts).
//   ./run lab up openstack && deno test -A tests/openstack_test.ts
import assert from "node:assert/strict";
import { OpenStackClient } from "../src/openstack/client.ts";
import { type Cloud as Credentials, parseClouds } from "../src/openstack/clouds.ts";
import type { OpenStack, SeenRequest } from "../src/openstack/contract.ts";
import { attachPort, detachPort } from "../src/openstack/ensure/attachment.ts";
import { ensureFloatingIP } from "../src/openstack/ensure/floating_ip.ts";
import { releaseFloatingIP } from "../src/openstack/ensure/floating_ip_release.ts";
import { describeNetwork } from "../src/openstack/ensure/network.ts";
import { markedDescription, type Owner } from "../src/openstack/ensure/owner.ts";
import {
  deletePort,
  ensureAddressPairs,
  ensurePort,
  findPorts,
  type Port,
} from "../src/openstack/ensure/port.ts";
import { ensureRoutes } from "../src/openstack/ensure/routes.ts";
import type { Rule } from "../src/openstack/ensure/rules.ts";
import { deleteSecurityGroup, ensureSecurityGroup } from "../src/openstack/ensure/security_group.ts";
import { resolveServer } from "../src/openstack/ensure/server.ts";
import { OpenStackError } from "../src/openstack/errors.ts";
import { listAll } from "../src/openstack/pages.ts";
import { AUTH_URL, type Cloud, connectAs } from "./lab/cloud.ts";
import { z } from "zod";

const PASSWORD = `clouds:
  lab:
    auth: {auth_url: "${AUTH_URL}", username: tenant, password: tenantpw, project_name: tenant, user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
`;

const IKE: Rule[] = [500, 4500].map((port) => ({
  direction: "ingress",
  ethertype: "IPv4",
  protocol: "udp",
  portMin: port,
  portMax: port,
  remoteIPPrefix: "203.0.113.250/32",
}));

/** What a test gets: our client, the judge, an owner of its own whose things are removed afterwards. */
interface Place extends AsyncDisposable {
  os: OpenStack;
  judge: Cloud;
  owner: Owner;
  pinnedTag: string;
  networkID: string;
  externalNetworkID: string;
  another(): Owner;
  port(owner?: Owner): Promise<Port>;
}

async function place(credentials: Credentials = parseClouds(PASSWORD)): Promise<Place> {
  const os = new OpenStackClient(credentials);
  const judge = await connectAs("tenant");
  const networks = await judge.list("networks");
  const networkID = networks.find((one) => one.name === "tenant-net")!.id;
  const externalNetworkID = networks.find((one) => one["router:external"])!.id;
  const owners: Owner[] = [];
  const another = () => {
    const uid = crypto.randomUUID();
    const owner = {
      tag: `ipsec.bnerd.net/uid=${uid}`,
      name: `ipsec-${uid.slice(0, 8)}`,
      description: "IPsecGateway test/gw",
    };
    owners.push(owner);
    return owner;
  };
  const owner = another();
  return {
    os,
    judge,
    owner,
    pinnedTag: pinOf(owner),
    networkID,
    externalNetworkID,
    another,
    async port(of = owner) {
      const { id: securityGroupID } = await ensureSecurityGroup(os, of, { rules: IKE });
      return await ensurePort(os, of, { networkID, securityGroupID });
    },
    async [Symbol.asyncDispose]() {
      for (const one of owners) {
        await releaseFloatingIP(os, one, { pinnedTag: pinOf(one) });
        await deletePort(os, one);
        await deleteSecurityGroup(os, one);
      }
      await os[Symbol.asyncDispose]();
    },
  };
}

function pinOf(owner: Owner): string {
  return owner.tag.replace("/uid=", "/pinned-by=");
}

/** Waits until `condition` answers something, at most `ms`. */
async function until<T>(what: string, condition: () => Promise<T | undefined>, ms = 30_000): Promise<T> {
  const deadline = performance.now() + ms;
  for (;;) {
    const value = await condition();
    if (value !== undefined) return value;
    assert.ok(performance.now() < deadline, `${what} within ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

function rulesOf(judge: Cloud, groupID: string) {
  return judge.list("security-group-rules", { security_group_id: groupID });
}

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

Deno.test("ensureFloatingIP() makes one address of our own on the port, and finds it again by port and by tag", async () => {
  await using at = await place();
  const port = await at.port();
  const ensure = (portID: string) => ensureFloatingIP(at.os, at.owner, { portID, ...at });
  const first = await ensure(port.id);
  assert.equal(first.kind, "attached");
  assert.deepEqual(await ensure(port.id), first);
  assert.ok(first.kind === "attached" && !first.pinned);
  assert.deepEqual((await at.judge.get("floatingips", first.id)).tags, [at.owner.tag]);
  await at.judge.update("floatingips", first.id, { port_id: null });
  assert.deepEqual(await ensure(port.id), first, "found by tag");
  await deletePort(at.os, at.owner);
  const replaced = await at.port();
  assert.deepEqual(await ensure(replaced.id), first, "moved to the new port");
  assert.equal((await at.judge.get("floatingips", first.id)).port_id, replaced.id);
  const released = await releaseFloatingIP(at.os, at.owner, at);
  assert.deepEqual(released, { deleted: [first.address], freed: [], left: [] });
  await assert.rejects(at.judge.get("floatingips", first.id), /404/);
});

Deno.test("ensureFloatingIP() refuses a pinned address on a foreign port, takes it when it is free, and gives it back", async () => {
  await using at = await place();
  const port = await at.port();
  const vm = at.another();
  const vmPort = await at.port(vm);
  const fip = await at.judge.create("floatingips", {
    floating_network_id: at.externalNetworkID,
    port_id: vmPort.id,
    description: "customer's",
  });
  await at.judge.call("network", "PUT", `/floatingips/${fip.id}/tags`, { tags: ["customer=7"] });
  const ensure = () =>
    ensureFloatingIP(at.os, at.owner, { portID: port.id, pinnedAddress: fip.floating_ip_address, ...at });
  try {
    const refused = await ensure();
    assert.equal(refused.kind, "elsewhere");
    assert.ok(
      refused.kind === "elsewhere" && refused.portID === vmPort.id && refused.why.includes(vmPort.id),
    );
    assert.equal((await at.judge.get("floatingips", fip.id)).port_id, vmPort.id);
    await at.judge.update("floatingips", fip.id, { port_id: null });
    assert.deepEqual(await ensure(), {
      kind: "attached",
      id: fip.id,
      address: fip.floating_ip_address,
      pinned: true,
    });
    const seen = await at.judge.get("floatingips", fip.id);
    assert.equal(seen.port_id, port.id);
    assert.deepEqual([...seen.tags].sort(), ["customer=7", at.pinnedTag]);
    // Back to the VM: noticed, and left there.
    await at.judge.update("floatingips", fip.id, { port_id: vmPort.id });
    assert.equal((await ensure()).kind, "elsewhere");
    await releaseFloatingIP(at.os, at.owner, at);
    const left = await at.judge.get("floatingips", fip.id);
    assert.equal(left.port_id, vmPort.id);
    assert.deepEqual(left.tags, ["customer=7"]);
  } finally {
    await at.judge.remove("floatingips", fip.id);
  }
});

Deno.test("releaseFloatingIP() takes a pinned address off our port and deletes it never, not even one we had made", async () => {
  await using at = await place();
  const port = await at.port();
  const own = await ensureFloatingIP(at.os, at.owner, { portID: port.id, ...at });
  assert.ok(own.kind === "attached");
  const pinned = await ensureFloatingIP(at.os, at.owner, {
    portID: port.id,
    pinnedAddress: own.address,
    ...at,
  });
  assert.deepEqual(pinned, { ...own, pinned: true });
  const unpinned = await ensureFloatingIP(at.os, at.owner, { portID: port.id, ...at });
  assert.deepEqual(unpinned, { ...own, pinned: true }, "the pin left the spec");
  assert.deepEqual(await releaseFloatingIP(at.os, at.owner, at), {
    deleted: [],
    freed: [own.address],
    left: [],
  });
  assert.equal((await at.judge.get("floatingips", own.id)).port_id, null);
  await at.judge.remove("floatingips", own.id);
});

Deno.test("ensureFloatingIP() lets the first pin win", async () => {
  await using at = await place();
  const other = at.another();
  const [port, otherPort] = [await at.port(), await at.port(other)];
  const fip = await at.judge.create("floatingips", { floating_network_id: at.externalNetworkID });
  const pinnedAddress = fip.floating_ip_address;
  const ours = () => ensureFloatingIP(at.os, at.owner, { portID: port.id, pinnedAddress, ...at });
  const theirs = () =>
    ensureFloatingIP(at.os, other, { portID: otherPort.id, pinnedAddress, pinnedTag: pinOf(other) });
  try {
    assert.equal((await ours()).kind, "attached");
    const second = await theirs();
    assert.ok(second.kind === "pinnedByOther" && second.by === at.pinnedTag && second.portID === port.id);
    await at.judge.update("floatingips", fip.id, { port_id: null });
    assert.equal((await theirs()).kind, "pinnedByOther", "also while it is on no port");
    assert.equal((await ours()).kind, "attached");
    await releaseFloatingIP(at.os, at.owner, at);
    assert.equal((await theirs()).kind, "attached", "the first one let go");
    // Both at once, on a free one: one gets it and the other says why not.
    await releaseFloatingIP(at.os, other, { pinnedTag: pinOf(other) });
    await Promise.all([ours(), theirs()]);
    const settled = [await ours(), await theirs()].map((one) => one.kind).sort();
    assert.equal(settled[0], "attached");
    assert.match(settled[1]!, /pinnedByOther|elsewhere/);
  } finally {
    await at.judge.remove("floatingips", fip.id);
  }
});

Deno.test("ensureFloatingIP() does not take an address that somebody associates between its look and its write", async () => {
  await using at = await place();
  const port = await at.port();
  const vmPort = await at.port(at.another());
  const fip = await at.judge.create("floatingips", { floating_network_id: at.externalNetworkID });
  let stolen = 0;
  const os: OpenStack = {
    async request(request) {
      if (request.method === "PUT" && request.path === `/v2.0/floatingips/${fip.id}` && stolen++ === 0) {
        await at.judge.update("floatingips", fip.id, { port_id: vmPort.id });
      }
      return await at.os.request(request);
    },
  };
  try {
    const outcome = await ensureFloatingIP(os, at.owner, {
      portID: port.id,
      pinnedAddress: fip.floating_ip_address,
      pinnedTag: at.pinnedTag,
    });
    assert.equal(stolen, 1, "the race was played");
    assert.equal(outcome.kind, "elsewhere");
    assert.equal((await at.judge.get("floatingips", fip.id)).port_id, vmPort.id);
  } finally {
    await at.judge.remove("floatingips", fip.id);
  }
});

Deno.test("ensureFloatingIP() says that a pinned address does not exist", async () => {
  await using at = await place();
  const outcome = await ensureFloatingIP(at.os, at.owner, {
    portID: "none",
    pinnedAddress: "203.0.113.199",
    pinnedTag: at.pinnedTag,
  });
  assert.ok(outcome.kind === "notFound" && outcome.why.includes("203.0.113.199"));
});

Deno.test("ensureRoutes() adds and removes routes by its next hop and leaves the others", async () => {
  await using at = await place();
  const port = await at.port();
  const [router] = await at.judge.list("routers");
  const foreign = { destination: "10.77.0.0/24", nexthop: "10.0.0.2" };
  await at.judge.update("routers", router!.id, { routes: [foreign] });
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
    await at.judge.update("routers", router!.id, { routes: [] });
  }
});

Deno.test("OpenStackClient authenticates again, once, when its token was revoked", async () => {
  const seen: SeenRequest[] = [];
  await using os = new OpenStackClient(parseClouds(PASSWORD), { onRequest: (one) => seen.push(one) });
  let token = "";
  const spying: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    token = response.headers.get("x-subject-token") ?? token;
    return response;
  };
  await using client = new OpenStackClient(parseClouds(PASSWORD), {
    fetch: spying,
    onRequest: (one) => seen.push(one),
  });
  const networks = () => client.request({ service: "network", method: "GET", path: "/v2.0/networks" });
  await networks();
  const revoked = await fetch(`${AUTH_URL}/auth/tokens`, {
    method: "DELETE",
    headers: { "x-auth-token": token, "x-subject-token": token },
  });
  assert.equal(revoked.status, 204);
  await revoked.body?.cancel();
  seen.length = 0;
  await Promise.all(Array.from({ length: 5 }, networks));
  assert.equal(seen.filter((one) => one.service === "identity").length, 1, "one renewal for all five");
  assert.ok(seen.some((one) => one.code === "401"), "the token was refused");
  void os;
});

Deno.test("OpenStackClient works with an application credential, and says so when it is wrong", async () => {
  const { token, user } = await tenantToken();
  const name = `test-${crypto.randomUUID()}`;
  const made = await fetch(`${AUTH_URL}/users/${user}/application_credentials`, {
    method: "POST",
    headers: { "x-auth-token": token, "content-type": "application/json" },
    body: JSON.stringify({ application_credential: { name, secret: "s3cret" } }),
  });
  const { application_credential: { id } } = await made.json() as { application_credential: { id: string } };
  const cloud = (fields: string) =>
    parseClouds(
      `clouds: {a: {auth: {auth_url: "${AUTH_URL}", ${fields}, application_credential_secret: s3cret}}}`,
    );
  for (
    const fields of [
      `application_credential_id: ${id}`,
      `application_credential_name: ${name}, user_id: ${user}`,
    ]
  ) {
    await using at = await place(cloud(fields));
    assert.equal((await ensureSecurityGroup(at.os, at.owner, { rules: IKE })).id.length, 36);
  }
  await using wrong = new OpenStackClient(
    cloud("application_credential_id: 0123456789abcdef0123456789abcdef"),
  );
  await assert.rejects(
    wrong.request({ service: "network", method: "GET", path: "/v2.0/networks" }),
    (error) => {
      assert.ok(error instanceof OpenStackError);
      assert.equal(error.service, "identity");
      assert.ok(!error.message.includes("s3cret"));
      return true;
    },
  );
});

Deno.test("OpenStackClient names region and interface when the catalog lacks them", async () => {
  await using os = new OpenStackClient({ ...parseClouds(PASSWORD), region: "Nowhere" });
  await assert.rejects(
    os.request({ service: "compute", method: "GET", path: "/servers" }),
    /Cannot call compute: the catalog has no endpoint with interface "public" and region "Nowhere"/,
  );
});

Deno.test("listAll() reads every page, also when the marker vanishes in between", async () => {
  await using at = await place();
  const owners = [at.owner, at.another(), at.another(), at.another()];
  for (const owner of owners) await ensureSecurityGroup(at.os, owner, { rules: [] });
  const ids = (await at.judge.list("security-groups")).map((group) => group.id).sort();
  let removed = "";
  const os: OpenStack = {
    async request(request) {
      const { marker } = request.query ?? {};
      if (Array.isArray(marker) && !removed) {
        // The owner whose group is the marker deletes it.
        const groups = await at.judge.list("security-groups");
        const victim = groups.find((group) => group.id === marker[0]);
        const owner = owners.find((one) => one.name === victim?.name);
        if (owner) {
          removed = victim!.id;
          await deleteSecurityGroup(at.os, owner);
        }
      }
      return await at.os.request(request);
    },
  };
  const found = await listAll(os, {
    service: "network",
    path: "/v2.0/security-groups",
    plural: "security_groups",
    schema: z.object({ id: z.string() }),
    query: { limit: 1 },
  });
  assert.notEqual(removed, "", "a marker vanished");
  assert.deepEqual(found.map((one) => one.id).sort(), ids.filter((id) => id !== removed));
});

function body(rule: Rule): Record<string, unknown> {
  return {
    direction: rule.direction,
    ethertype: rule.ethertype,
    protocol: rule.protocol,
    port_range_min: rule.portMin,
    port_range_max: rule.portMax,
    remote_ip_prefix: rule.remoteIPPrefix,
  };
}

async function tenantToken(): Promise<{ token: string; user: string }> {
  const domain = { name: "Default" };
  const response = await fetch(`${AUTH_URL}/auth/tokens`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      auth: {
        identity: {
          methods: ["password"],
          password: { user: { name: "tenant", domain, password: "tenantpw" } },
        },
        scope: { project: { name: "tenant", domain } },
      },
    }),
  });
  const answer = await response.json() as { token: { user: { id: string } } };
  return { token: response.headers.get("x-subject-token") ?? "", user: answer.token.user.id };
}
