// What happens to a group, port or address when a call on the way to it fails. One file, since it is one mechanism.
import assert from "node:assert/strict";
import { type CloudDouble, startCloudDouble } from "../cloud_double.ts";
import { OpenStackError } from "../errors.ts";
import { markedDescription, type Owner } from "./owner.ts";
import { deletePort, ensurePort } from "./port.ts";
import { ensureRoutes } from "./routes.ts";
import { deleteSecurityGroup, ensureSecurityGroup, type Rule } from "./security_group.ts";

const owner: Owner = { tag: "ipsec.bnerd.net/uid=u-1", name: "ipsec-gw", description: "IPsecGateway ns/gw" };

const rules: Rule[] = [500, 4500].map((port) => ({
  direction: "ingress",
  ethertype: "IPv4",
  protocol: "udp",
  portMin: port,
  portMax: port,
  remoteIPPrefix: "192.0.2.1/32",
}));

function groupsOf(double: CloudDouble) {
  return double.items["security-groups"]!;
}

function twin(double: CloudDouble, id: string, fields: Record<string, unknown> = {}) {
  groupsOf(double).push({
    id,
    name: owner.name,
    description: markedDescription(owner),
    tags: [],
    created_at: id,
    revision_number: 1,
    ...fields,
  });
}

Deno.test("ensureSecurityGroup() leaks nothing when tagging fails, at any try", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  double.fail({ match: /PUT .*\/tags/, status: 500, times: 3 });
  for (let at = 0; at < 3; at++) {
    await assert.rejects(
      ensureSecurityGroup(os, owner, { rules }),
      /Cannot tag security group group-\d+ of ipsec-gw \(it was deleted again\)/,
    );
    assert.deepEqual(groupsOf(double), []);
  }
  await ensureSecurityGroup(os, owner, { rules });
  assert.equal(groupsOf(double).length, 1);
  assert.deepEqual(double.unmet(), []);
});

Deno.test("ensureSecurityGroup() adopts its own orphan when tagging failed and deleting too", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  double.fail({ match: /PUT .*\/tags/, status: 500 });
  double.fail({ match: /DELETE .*security-groups/, status: 500 });
  await assert.rejects(
    ensureSecurityGroup(os, owner, { rules }),
    /Cannot delete security group group-\d+ of ipsec-gw, which could not be tagged.*adopted/,
  );
  const [orphan] = groupsOf(double);
  const { id } = await ensureSecurityGroup(os, owner, { rules });
  assert.equal(id, orphan!.id);
  assert.equal(groupsOf(double).length, 1);
});

Deno.test("ensureSecurityGroup() makes one group when the answer to the create or to the tag is lost", async () => {
  for (const match of [/POST .*security-groups$/, /PUT .*\/tags/]) {
    for (const fault of [{ cut: "after" as const }, { statusAfter: 504 }]) {
      await using double = startCloudDouble();
      await using os = double.client();
      double.fail({ match, ...fault });
      const { id } = await ensureSecurityGroup(os, owner, { rules });
      assert.deepEqual(groupsOf(double).map((group) => [group.id, group.tags]), [[id, [owner.tag]]]);
      assert.deepEqual(double.unmet(), []);
    }
  }
});

Deno.test("ensureSecurityGroup() fails and makes nothing when the create was lost before it was done", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  double.fail({ match: /POST .*security-groups$/, cut: "before" });
  await assert.rejects(
    ensureSecurityGroup(os, owner, { rules }),
    /Cannot create the security group of ipsec-gw/,
  );
  assert.deepEqual(groupsOf(double), []);
});

Deno.test("ensureSecurityGroup() deletes the double that a lost create made late", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  double.fail({ match: /POST .*security-groups$/, cut: "before" });
  await assert.rejects(ensureSecurityGroup(os, owner, { rules }));
  const { id } = await ensureSecurityGroup(os, owner, { rules });
  await ensureSecurityGroup(os, owner, { rules });
  twin(double, "late");
  assert.equal((await ensureSecurityGroup(os, owner, { rules })).id, id);
  assert.deepEqual(groupsOf(double).map((group) => group.id), [id]);
  const before = double.calls.length;
  await ensureSecurityGroup(os, owner, { rules });
  assert.equal(double.calls.length - before, 2, "then it looks no more");
});

Deno.test("ensureSecurityGroup() and ensurePort() keep one of two that two controllers made, the one in use first", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  const ensure = async () => {
    const { id } = await ensureSecurityGroup(os, owner, { rules });
    return await ensurePort(os, owner, { networkID: "N", securityGroupID: id });
  };
  const first = await ensure();
  twin(double, "a-older", { tags: [owner.tag], created_at: "" });
  const ports = double.items.ports!;
  const made = ports.find((port) => port.id === first.id)!;
  ports.push({ ...made, id: "attached", device_id: "A", device_owner: "compute:nova", created_at: "9" });
  assert.equal((await ensure()).id, "attached");
  await ensure();
  assert.deepEqual(groupsOf(double).map((group) => group.id), ["a-older"]);
  assert.deepEqual(double.items.ports!.filter((port) => port.name === owner.name).map((port) => port.id), [
    "attached",
  ]);
});

Deno.test("ensureSecurityGroup() finds by marker where the cloud has no tags, and never calls them", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  double.extensions = [];
  double.fail({ match: /tags/, status: 404, times: 99 });
  const { id } = await ensureSecurityGroup(os, owner, { rules });
  assert.equal((await ensureSecurityGroup(os, owner, { rules })).id, id);
  const other = await ensureSecurityGroup(os, { ...owner, tag: "ipsec.bnerd.net/uid=u-2" }, { rules });
  assert.notEqual(other.id, id, "same name and words, another owner");
  assert.deepEqual(await deleteSecurityGroup(os, owner), { deleted: [id] });
  assert.equal(double.seen(/tags/).length, 0);
});

Deno.test("ensureSecurityGroup() does the same where even the list of extensions is 404, and tags once it is not", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  double.fail({ match: /extensions/, status: 404, times: 99 });
  double.fail({ match: /tags/, status: 404, times: 99 });
  const { id } = await ensureSecurityGroup(os, owner, { rules });
  assert.equal((await ensureSecurityGroup(os, owner, { rules })).id, id);
  assert.deepEqual(groupsOf(double)[0]!.tags, []);
  await using other = startCloudDouble();
  await using passing = other.client();
  other.fail({ match: /extensions/, status: 404, times: 2 });
  const first = await ensureSecurityGroup(passing, owner, { rules });
  assert.equal((await ensureSecurityGroup(passing, owner, { rules })).id, first.id);
  assert.deepEqual(groupsOf(other).map((group) => group.tags), [[owner.tag]]);
});

Deno.test("ensureSecurityGroup() creates nothing while it can't know whether the cloud has tags", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  double.fail({ match: /extensions/, status: 503 });
  await assert.rejects(ensureSecurityGroup(os, owner, { rules }), OpenStackError);
  assert.equal(double.seen(/POST .*security-groups/).length, 0);
  await ensureSecurityGroup(os, owner, { rules });
});

Deno.test("ensureSecurityGroup() takes no twin that carries another owner's tag or another description", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  twin(double, "g-tagged", { tags: ["ipsec.bnerd.net/uid=u-2"] });
  twin(double, "g-worded", { description: owner.description });
  twin(double, "g-named", { name: "other" });
  const { id } = await ensureSecurityGroup(os, owner, { rules });
  assert.match(id, /^group-/);
  assert.deepEqual(await deleteSecurityGroup(os, owner), { deleted: [id] });
});

Deno.test("ensureSecurityGroup() adopts the oldest twin with its foreign tags, and leaves the younger", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  twin(double, "g-2", { created_at: "2" });
  twin(double, "g-1", { created_at: "1", tags: ["team=a/b"] });
  assert.equal((await ensureSecurityGroup(os, owner, { rules })).id, "g-1");
  assert.deepEqual(groupsOf(double).map((group) => group.tags), [[], [owner.tag, "team=a/b"].sort()]);
});

Deno.test("ensureSecurityGroup() is not fooled by a service that ignores filters", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  twin(double, "g-foreign", { description: "theirs", name: "theirs" });
  const blind = {
    request: (request: Parameters<typeof os.request>[0]) => {
      const ours = request.path === "/v2.0/security-groups" && request.method === "GET";
      return os.request(ours ? { ...request, query: {} } : request);
    },
  };
  const { id } = await ensureSecurityGroup(blind, owner, { rules });
  assert.match(id, /^group-/);
  assert.deepEqual(await deleteSecurityGroup(blind, owner), { deleted: [id] });
  assert.equal(groupsOf(double).length, 1);
});

Deno.test("ensureSecurityGroup() creates once and converges rules when a rule fails at first", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  double.fail({
    match: /POST .*security-group-rules/,
    skip: 1,
    status: 409,
    body: { NeutronError: { type: "OverQuota", message: "m" } },
  });
  await assert.rejects(
    ensureSecurityGroup(os, owner, { rules }),
    /add rule "ingress udp 4500 from 192\.0\.2\.1\/32" to security group group-\d+ of ipsec-gw|add rule "ingress udp 500/,
  );
  const [group] = groupsOf(double);
  assert.equal((await ensureSecurityGroup(os, owner, { rules })).id, group!.id);
  assert.equal(groupsOf(double).length, 1);
  assert.equal(double.items["security-group-rules"]!.length, 4);
});

Deno.test("ensureSecurityGroup() takes SecurityGroupRuleExists for success, and a lost rule answer for a reason to look", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  const exists = { NeutronError: { type: "SecurityGroupRuleExists", message: "m" } };
  double.fail({ match: /POST .*security-group-rules/, statusAfter: 409, body: exists });
  double.fail({ match: /POST .*security-group-rules/, cut: "after" });
  await ensureSecurityGroup(os, owner, { rules });
  assert.equal(double.items["security-group-rules"]!.length, 4);
  double.items["security-group-rules"]!.push({
    id: "foreign",
    security_group_id: groupsOf(double)[0]!.id,
    direction: "ingress",
    ethertype: "IPv4",
  });
  double.fail({ match: /DELETE .*security-group-rules/, cut: "after" });
  await ensureSecurityGroup(os, owner, { rules });
  assert.equal(double.items["security-group-rules"]!.length, 4);
  assert.deepEqual(double.unmet(), []);
});

Deno.test("deleteSecurityGroup() says which group is in use, and deletes twins too", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  const { id } = await ensureSecurityGroup(os, owner, { rules });
  twin(double, "g-1");
  await ensurePort(os, owner, { networkID: "N", securityGroupID: id });
  await assert.rejects(
    deleteSecurityGroup(os, owner),
    new RegExp(`delete security group ${id} of ipsec-gw.*SecurityGroupInUse`),
  );
  await deletePort(os, owner);
  assert.deepEqual(await deleteSecurityGroup(os, owner), { deleted: ["g-1", id] });
  assert.deepEqual(groupsOf(double), []);
});

Deno.test("ensurePort() makes one port when the answer to the create is lost, and none that stays when tagging fails", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  const ensure = () => ensurePort(os, owner, { networkID: "N", securityGroupID: "g" });
  const ours = () => double.items.ports!.filter((port) => port.name === owner.name);
  double.fail({ match: /PUT .*\/tags/, status: 404 });
  await assert.rejects(ensure(), /Cannot tag port/);
  assert.equal(ours().length, 0);
  double.fail({ match: /POST .*ports/, statusAfter: 502 });
  const port = await ensure();
  assert.deepEqual(await ensure(), port);
  assert.equal(ours().length, 1);
  assert.deepEqual(double.unmet(), []);
});

Deno.test("ensurePort() and ensureRoutes() stay in the port's subnet when the network gets another that sorts first", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  const ensure = () => ensurePort(os, owner, { networkID: "N", securityGroupID: "g" });
  const port = await ensure();
  const [subnet] = double.items.subnets!;
  double.items.subnets!.unshift({ ...subnet!, id: "A-new", cidr: "10.7.0.0/24", gateway_ip: "10.7.0.1" });
  assert.deepEqual(await ensure(), port);
  const routes = await ensureRoutes(os, owner, {
    networkID: "N",
    nexthop: port.fixedIP,
    destinations: ["10.6.0.0/16"],
  });
  assert.equal(routes.routerID, "R");
});

Deno.test("ensurePort() says which port does not fit when the subnet is another", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  const { id } = await ensurePort(os, owner, { networkID: "N", securityGroupID: "g" });
  double.items.subnets!.push({ ...double.items.subnets![0]!, id: "S2" });
  await assert.rejects(
    ensurePort(os, owner, { networkID: "N", subnetID: "S2", securityGroupID: "g" }),
    new RegExp(`Cannot use port ${id} of ipsec-gw: .* no address in subnet S2; delete the port`),
  );
});

Deno.test("ensurePort() sets nothing twice and puts nothing but what differs", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  const ensure = (allowedAddressPairs?: string[]) =>
    ensurePort(os, owner, {
      networkID: "N",
      securityGroupID: "g",
      ...(allowedAddressPairs ? { allowedAddressPairs } : {}),
    });
  await ensure(["10.1.0.0/24"]);
  await ensure(["10.1.0.0/24"]);
  await ensure();
  assert.equal(double.seen(/PUT .*ports\/[^/]+$/).length, 0);
  await ensure([]);
  const [put] = double.seen(/PUT .*ports\/[^/]+$/);
  assert.deepEqual(put!.body, { port: { allowed_address_pairs: [] } });
});

Deno.test("markedDescription() keeps the tag whatever the description's length", () => {
  const long = markedDescription({ ...owner, description: "x".repeat(400) });
  assert.equal(long.length, 255);
  assert.ok(long.endsWith(` [${owner.tag}]`));
});
