// Calls that go wrong on their way to the lab's real services, by the fault proxy. Each test fails if its fault was
// not met. The same is done to every single call of the way in src/openstack/ensure/sweep_test.ts, without the services.
import assert from "node:assert/strict";
import { OpenStackClient } from "../src/openstack/client.ts";
import { parseClouds } from "../src/openstack/clouds.ts";
import type { SeenRequest } from "../src/openstack/contract.ts";
import { attachPort } from "../src/openstack/ensure/attachment.ts";
import { ensureFloatingIP } from "../src/openstack/ensure/floating_ip.ts";
import { releaseFloatingIP } from "../src/openstack/ensure/floating_ip_release.ts";
import { deletePort } from "../src/openstack/ensure/port.ts";
import { deleteSecurityGroup, ensureSecurityGroup } from "../src/openstack/ensure/security_group.ts";
import { OpenStackError } from "../src/openstack/errors.ts";
import { type Action, PROXY_AUTH_URL, type Rule, withFault } from "./lab/proxy.ts";
import { IKE, type Place, place, tenantClouds, until } from "./openstack_place.ts";

const through = () => place(parseClouds(tenantClouds(PROXY_AUTH_URL)));

function once(method: string, path: string, action: Action): Rule {
  return { id: `${method} ${path}`, match: { method, path }, times: 1, action };
}

async function groupsOf(at: Place) {
  return await at.judge.list("security-groups", { name: at.owner.name });
}

Deno.test("ensureSecurityGroup() makes one group when an answer is cut, broken, or 500", async () => {
  const faults = [
    once("POST", "/security-groups$", { kind: "cut-after" }),
    once("POST", "/security-groups$", { kind: "broken-body" }),
    once("PUT", "/security-groups/[^/]+/tags$", { kind: "cut-after" }),
    once("POST", "/security-group-rules$", { kind: "truncate" }),
  ];
  for (const fault of faults) {
    await using at = await through();
    await withFault(fault, () => ensureSecurityGroup(at.os, at.owner, { rules: IKE }));
    const groups = await groupsOf(at);
    assert.deepEqual(groups.map((group) => group.tags), [[at.owner.tag]], fault.id);
    assert.equal(groups[0]!.security_group_rules.length, 4, fault.id);
  }
});

Deno.test("ensureSecurityGroup() leaks no group when tagging fails, and says what happened", async () => {
  await using at = await through();
  for (const code of [404, 500]) {
    await withFault(once("PUT", "/tags$", { kind: "status", code }), async () => {
      await assert.rejects(
        ensureSecurityGroup(at.os, at.owner, { rules: IKE }),
        new RegExp(`Cannot tag security group .* of ${at.owner.name} \\(it was deleted again\\).*${code}`),
      );
    });
    assert.deepEqual(await groupsOf(at), []);
  }
});

Deno.test("ensureSecurityGroup() deletes the double when a lost create lands late", async () => {
  await using at = await place();
  await using os = new OpenStackClient(parseClouds(tenantClouds(PROXY_AUTH_URL)), { writeTimeoutMs: 5_000 });
  const ensure = () => ensureSecurityGroup(os, at.owner, { rules: IKE });
  await withFault(once("POST", "/security-groups$", { kind: "delay", ms: 9_000 }), async () => {
    await assert.rejects(ensure(), (error) => {
      assert.ok(error instanceof OpenStackError);
      assert.equal(error.type, "Timeout");
      assert.ok(error.ambiguous);
      return true;
    });
  });
  const { id } = await ensure();
  await until("the late group", async () => (await groupsOf(at)).length === 2 ? true : undefined);
  assert.equal((await ensure()).id, id);
  assert.deepEqual((await groupsOf(at)).map((group) => group.id), [id]);
});

Deno.test("group, port and floating IP are found by description where the cloud has no tags", async () => {
  await using at = await through();
  await withFault(
    { id: "no tags", match: { path: "/extensions$" }, action: { kind: "status", code: 404 } },
    async () => {
      const port = await at.port();
      assert.deepEqual(await at.port(), port);
      const ensure = () => ensureFloatingIP(at.os, at.owner, { portID: port.id, ...at });
      const address = await ensure();
      assert.ok(address.kind === "attached" && !address.pinned);
      await at.judge.update("floatingips", address.id, { port_id: null });
      assert.deepEqual(await ensure(), address);
      const [group] = await groupsOf(at);
      const seen = [
        group!,
        await at.judge.get("ports", port.id),
        await at.judge.get("floatingips", address.id),
      ];
      assert.deepEqual(seen.flatMap((one) => one.tags), []);
      const released = await releaseFloatingIP(at.os, at.owner, at);
      assert.deepEqual(released, { deleted: [address.address], freed: [], left: [] });
      assert.deepEqual(await deletePort(at.os, at.owner), { deleted: [port.id] });
      assert.deepEqual(await deleteSecurityGroup(at.os, at.owner), { deleted: [group!.id] });
    },
  );
});

Deno.test("attachPort() counts the port as attached when the answer to the attach is lost", async () => {
  await using at = await through();
  const server = await at.judge.server("node-1");
  for (const kind of ["cut-after", "broken-body"] as const) {
    const port = await at.port();
    await withFault(once("POST", "/os-interface$", { kind }), async () => {
      const answer = await attachPort(at.os, at.owner, { portID: port.id, serverID: server.id });
      assert.deepEqual(answer, { state: "attached", why: "" }, kind);
    });
    assert.equal((await at.judge.get("ports", port.id)).device_id, server.id);
    await deletePort(at.os, at.owner);
  }
});

Deno.test("attachPort() fails with Nova's words when the attach was refused", async () => {
  await using at = await through();
  const port = await at.port();
  const server = await at.judge.server("node-1");
  const body = JSON.stringify({ forbidden: { code: 403, message: "Maximum number of ports exceeded" } });
  await withFault(once("POST", "/os-interface$", { kind: "status", code: 403, body }), async () => {
    await assert.rejects(
      attachPort(at.os, at.owner, { portID: port.id, serverID: server.id }),
      /Maximum number of ports exceeded; raise the project's quota/,
    );
  });
});

Deno.test("ensureFloatingIP() makes and moves one address when answers are lost, and leaks none when tagging fails", async () => {
  await using at = await through();
  const port = await at.port();
  const ensure = () => ensureFloatingIP(at.os, at.owner, { portID: port.id, ...at });
  const ours = async () =>
    (await at.judge.list("floatingips")).filter((fip) => fip.description.includes(at.owner.tag));
  await withFault(once("PUT", "/floatingips/[^/]+/tags$", { kind: "status", code: 403 }), async () => {
    await assert.rejects(ensure(), /it was deleted again/);
  });
  assert.deepEqual(await ours(), []);
  const made = await withFault(once("POST", "/floatingips$", { kind: "cut-after" }), ensure);
  assert.ok(made.kind === "attached" && !made.pinned);
  assert.deepEqual((await ours()).map((fip) => [fip.id, fip.tags]), [[made.id, [at.owner.tag]]]);
  await at.judge.update("floatingips", made.id, { port_id: null });
  assert.deepEqual(
    await withFault(once("PUT", `/floatingips/${made.id}$`, { kind: "cut-after" }), ensure),
    made,
  );
  assert.equal((await at.judge.get("floatingips", made.id)).port_id, port.id);
  const { deleted } = await withFault(
    once("DELETE", `/floatingips/${made.id}$`, { kind: "cut-after" }),
    () => releaseFloatingIP(at.os, at.owner, at),
  );
  assert.ok(deleted.length <= 1);
  assert.deepEqual(await ours(), []);
});

Deno.test("OpenStackClient authenticates once again when a token dies on the way, and honours Retry-After", async () => {
  const seen: SeenRequest[] = [];
  await using os = new OpenStackClient(parseClouds(tenantClouds(PROXY_AUTH_URL)), {
    onRequest: (one) => seen.push(one),
  });
  const networks = () => os.request({ service: "network", method: "GET", path: "/v2.0/networks" });
  await withFault(once("GET", "/networks$", { kind: "status", code: 401 }), networks);
  assert.deepEqual(seen.map((one) => `${one.service} ${one.code}`), [
    "identity 201",
    "network 401",
    "identity 201",
    "network 200",
  ]);
  const busy = { kind: "status", code: 429, headers: { "retry-after": "30" } } as const;
  await withFault(once("GET", "/networks$", busy), async (hits) => {
    for (let at = 0; at < 3; at++) {
      await assert.rejects(
        networks(),
        (error) => error instanceof OpenStackError && (error.retryAfterMs ?? 0) > 25_000,
      );
    }
    assert.equal(await hits(), 1);
  });
});
