import assert from "node:assert/strict";
import { z } from "zod";
import { startCloudDouble } from "./cloud_double.ts";
import type { OpenStack, OpenStackRequest } from "./contract.ts";
import { OpenStackError } from "./errors.ts";
import { listAll } from "./pages.ts";

const schema = z.object({ id: z.string() });

function groups(os: OpenStack, query = {}) {
  return listAll(os, {
    service: "network",
    path: "/v2.0/security-groups",
    plural: "security_groups",
    schema,
    query,
  });
}

function answering(answer: (request: OpenStackRequest) => unknown): OpenStack {
  return {
    request: (request) => Promise.resolve({ status: 200, headers: new Headers(), body: answer(request) }),
  };
}

Deno.test("listAll() follows the links by their query only, and keeps the filters", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  for (let at = 0; at < 7; at++) {
    double.items["security-groups"]!.push({ id: `g${at}`, name: at % 2 ? "odd" : "even" });
  }
  double.pageSize = 2;
  assert.equal((await groups(os)).length, 7);
  assert.deepEqual((await groups(os, { name: "odd" })).map(({ id }) => id), ["g1", "g3", "g5"]);
});

Deno.test("listAll() begins anew when the marker vanished, in Neutron's way and in Nova's", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  const items = double.items;
  items["security-groups"] = ["a", "b", "c", "d"].map((id) => ({ id }));
  double.pageSize = 2;
  double.fail({
    match: /security-groups/,
    skip: 1,
    meanwhile: () => items["security-groups"] = items["security-groups"]!.filter(({ id }) => id !== "b"),
  });
  assert.deepEqual((await groups(os)).map(({ id }) => id), ["a", "c", "d"]);
  double.fail({ match: /security-groups/, skip: 1, status: 400 });
  assert.deepEqual((await groups(os)).map(({ id }) => id), ["a", "c", "d"]);
});

Deno.test("listAll() gives up on a listing that never ends", async () => {
  let calls = 0;
  const os = answering(() => {
    calls++;
    return {
      security_groups: [{ id: "same" }],
      security_groups_links: [{ rel: "next", href: "http://x/?marker=same" }],
    };
  });
  await assert.rejects(groups(os), /pages changed 5 times/);
  assert.equal(calls, 10);
});

Deno.test("listAll() refuses an answer of another shape", async () => {
  for (const body of [undefined, {}, [], { security_groups: {} }, { security_groups: [{ id: 7 }] }]) {
    await assert.rejects(groups(answering(() => body)), (error) => {
      assert.ok(error instanceof OpenStackError);
      assert.equal(error.type, "UnexpectedAnswer");
      return true;
    });
  }
});
