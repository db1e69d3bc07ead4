import assert from "node:assert/strict";
import { type CloudDouble, startCloudDouble } from "../cloud_double.ts";
import type { OpenStackClient } from "../client.ts";
import { OpenStackError } from "../errors.ts";
import { attachPort, detachPort } from "./attachment.ts";
import { ensurePort } from "./port.ts";
import { resolveServer, serverID } from "./server.ts";

const owner = { tag: "ipsec.bnerd.net/uid=u-1", name: "ipsec-gw", description: "IPsecGateway ns/gw" };

async function withPort(
  test: (at: { double: CloudDouble; os: OpenStackClient; portID: string }) => Promise<void>,
) {
  await using double = startCloudDouble();
  await using os = double.client();
  const { id: portID } = await ensurePort(os, owner, { networkID: "N", securityGroupID: "g" });
  await test({ double, os, portID });
  assert.deepEqual(double.unmet(), []);
}

function portOf(double: CloudDouble, portID: string) {
  return double.items.ports!.find((port) => port.id === portID)!;
}

Deno.test("attachPort() asks for the detach first and attaches only to a free port", () =>
  withPort(async ({ double, os, portID }) => {
    const attach = (server: string) => attachPort(os, owner, { portID, serverID: server });
    assert.deepEqual(await attach("A"), { state: "attached", why: "" });
    double.detachReads = 3;
    for (let at = 0; at < 3; at++) {
      const answer = await attach("B");
      assert.equal(answer.state, "waiting");
      assert.match(answer.why, /still attached to server A/);
    }
    assert.equal(double.seen(/POST .*os-interface/).length, 1, "no attach before device_id is empty");
    while ((await attach("B")).state === "waiting");
    assert.equal(portOf(double, portID).device_id, "B");
  }));

Deno.test("attachPort() and detachPort() ask for a detach once a minute, and sooner when the answer was lost", () =>
  withPort(async ({ double, os, portID }) => {
    let time = 0;
    const options = { portID, now: () => time };
    await attachPort(os, owner, { ...options, serverID: "A" });
    double.detachReads = 1000;
    const deletes = () => double.seen(/DELETE .*os-interface/).length;
    double.fail({ match: /DELETE .*os-interface/, statusAfter: 502 });
    const whys = new Set<string>();
    for (time = 0; time < 10_000; time += 1_000) {
      whys.add((await attachPort(os, owner, { ...options, serverID: "B" })).why);
      await detachPort(os, owner, options);
    }
    assert.equal(deletes(), 1);
    assert.equal(whys.size, 1, "the text stays the same meanwhile");
    assert.match([...whys][0]!, /its detach was asked for at .*, but .*502/);
    for (; time < 69_000; time += 1_000) await detachPort(os, owner, options);
    assert.equal(deletes(), 2);
    time += 2_000;
    await detachPort(os, owner, options);
    assert.equal(deletes(), 3);
  }));

Deno.test("attachPort() does not take a port for attached that is leaving that very server", () =>
  withPort(async ({ double, os, portID }) => {
    let time = 0;
    const attach = (serverID: string) => attachPort(os, owner, { portID, serverID, now: () => time });
    await attach("A");
    double.detachReads = 3;
    assert.equal((await attach("B")).state, "waiting");
    const back = await attach("A");
    assert.equal(back.state, "waiting");
    assert.match(back.why, /is leaving server A/);
    while ((await attach("A")).state === "waiting");
    assert.equal(double.seen(/POST .*os-interface/).length, 2, "attached anew, after it had left");
    // Nova never did it: after a minute the port counts as what it shows.
    double.detachReads = 1000;
    await attach("B");
    assert.equal((await attach("A")).state, "waiting");
    time += 61_000;
    assert.equal((await attach("A")).state, "attached");
  }));

Deno.test("attachPort() counts a lost answer as a success when the port shows the server", () =>
  withPort(async ({ double, os, portID }) => {
    for (const fault of [{ statusAfter: 500 }, { statusAfter: 504 }, { cut: "after" as const }]) {
      Object.assign(portOf(double, portID), { device_id: "", device_owner: "" });
      double.fail({ match: /POST .*os-interface/, ...fault });
      assert.equal((await attachPort(os, owner, { portID, serverID: "A" })).state, "attached");
    }
  }));

Deno.test("attachPort() fails, and names all three, when a 5xx really was a failure", () =>
  withPort(async ({ double, os, portID }) => {
    double.fail({ match: /POST .*os-interface/, status: 500, body: { computeFault: { message: "VIF" } } });
    await assert.rejects(
      attachPort(os, owner, { portID, serverID: "A" }),
      new RegExp(`Cannot attach port ${portID} of ipsec-gw to server A: .*500 computeFault: VIF`),
    );
  }));

Deno.test("attachPort() waits when another server got the port in between", () =>
  withPort(async ({ double, os, portID }) => {
    double.fail({
      match: /POST .*os-interface/,
      meanwhile: () =>
        Object.assign(portOf(double, portID), { device_id: "B", device_owner: "compute:nova" }),
    });
    const answer = await attachPort(os, owner, { portID, serverID: "A" });
    assert.deepEqual(answer, { state: "waiting", why: `port ${portID} is in use by server B` });
  }));

Deno.test("attachPort() waits when Nova still counts a detached port as in use, and fails on a locked server", () =>
  withPort(async ({ double, os, portID }) => {
    const conflict = (message: string) =>
      double.fail({
        match: /POST .*os-interface/,
        status: 409,
        body: { conflictingRequest: { code: 409, message } },
      });
    conflict(`Port ${portID} is still in use.`);
    const answer = await attachPort(os, owner, { portID, serverID: "A" });
    assert.equal(answer.state, "waiting");
    conflict("Instance A is locked");
    await assert.rejects(
      attachPort(os, owner, { portID, serverID: "A" }),
      /conflictingRequest: Instance A is locked/,
    );
  }));

Deno.test("attachPort() says what to do about a quota", () =>
  withPort(async ({ double, os, portID }) => {
    const message = "Maximum number of ports exceeded";
    double.fail({ match: /POST .*os-interface/, status: 403, body: { forbidden: { code: 403, message } } });
    await assert.rejects(attachPort(os, owner, { portID, serverID: "A" }), /raise the project's quota/);
  }));

Deno.test("attachPort() and detachPort() leave a port alone that a router has", () =>
  withPort(async ({ double, os, portID }) => {
    Object.assign(portOf(double, portID), { device_id: "R", device_owner: "network:router_interface" });
    await assert.rejects(
      attachPort(os, owner, { portID, serverID: "A" }),
      /network:router_interface R has it/,
    );
    await assert.rejects(detachPort(os, owner, { portID }), /network:router_interface R has it/);
    assert.equal(double.seen(/os-interface/).length, 0);
  }));

Deno.test("detachPort() waits until device_id is empty, and takes a lost answer and a missing port easily", () =>
  withPort(async ({ double, os, portID }) => {
    await attachPort(os, owner, { portID, serverID: "A" });
    double.detachReads = 2;
    double.fail({ match: /DELETE .*os-interface/, cut: "after" });
    const states: string[] = [];
    do states.push((await detachPort(os, owner, { portID })).state); while (states.at(-1) === "waiting");
    assert.ok(states.length > 1);
    assert.equal(portOf(double, portID).device_id, "");
    assert.equal((await detachPort(os, owner, { portID: "gone" })).state, "detached");
  }));

Deno.test("resolveServer() says how many servers have the name and what to do", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  assert.deepEqual(await resolveServer(os, { nodeName: "node-1" }), {
    kind: "found",
    id: "A",
    name: "node-1",
    status: "ACTIVE",
  });
  double.items.servers!.push({ id: "C", name: "node-1", status: "ACTIVE" }, {
    id: "D",
    name: "nodeX1",
    status: "ACTIVE",
  });
  const twice = await resolveServer(os, { nodeName: "node-1" });
  assert.ok(twice.kind === "missing" && /2 servers are named node-1 \(A, C\)/.test(twice.why));
  const none = await resolveServer(os, { nodeName: "node.1" });
  assert.ok(none.kind === "missing" && /set it to openstack:\/\/\/SERVER-ID/.test(none.why));
  double.fail({ match: /servers\/detail/, status: 500 });
  await assert.rejects(resolveServer(os, { nodeName: "node-1" }), OpenStackError);
});

Deno.test("serverID() reads both forms of a provider id and no other", () => {
  const uuid = "9f2c4a1e-0000-4000-8000-00000000abcd";
  assert.equal(serverID(`openstack:///${uuid}`), uuid);
  assert.equal(serverID(`openstack://Region-One/${uuid.toUpperCase()}`), uuid);
  for (
    const text of [
      "",
      uuid,
      `aws:///${uuid}`,
      `openstack:///${uuid}/x`,
      "openstack:///A",
      `openstack://${uuid}`,
    ]
  ) {
    assert.equal(serverID(text), undefined, text);
  }
});
