// The fault proxy against real Keystone, Neutron and Nova: what each action does to the client, and what the service
// has really done. Needs `./run lab up openstack`.

import assert from "node:assert/strict";
import { ACCOUNTS, type Cloud, connect, connectAs } from "./lab/cloud.ts";
import { type Action, PROXY_AUTH_URL, proxyLog, type Rule, withFault } from "./lab/proxy.ts";

const through = (): Promise<Cloud> => connect({ authUrl: PROXY_AUTH_URL, ...ACCOUNTS.tenant });

/** A name for one test's security group; what is left of it is removed at the end, past the proxy. */
async function named(): Promise<AsyncDisposable & { name: string; count(): Promise<number> }> {
  const direct = await connectAs("tenant");
  const name = `proxy-test-${crypto.randomUUID()}`;
  const found = () => direct.list("security-groups", { name });
  return {
    name,
    count: async () => (await found()).length,
    async [Symbol.asyncDispose]() {
      for (const group of await found()) await direct.remove("security-groups", group.id);
    },
  };
}

/** A rule that meets the creation of one group. */
function onCreate(name: string, action: Action, counts: Pick<Rule, "skip" | "times"> = {}): Rule {
  return {
    id: "create",
    match: { method: "POST", path: "^/network/v2.0/security-groups$", body: name },
    action,
    ...counts,
  };
}

Deno.test("proxy carries every service, with the catalog leading through it", async () => {
  const cloud = await through();
  const before = await proxyLog(0);
  const count = async (name: string) => ((await proxyLog(0)).counts[name] ?? 0) - (before.counts[name] ?? 0);
  assert.ok((await cloud.list("networks")).some((network) => network.name === "tenant-net"));
  assert.equal((await cloud.server("node-1")).name, "node-1");
  assert.equal(await count("GET /network/v2.0/networks"), 1);
  assert.equal(await count("GET /compute/v2.1/servers"), 1);
});

Deno.test("proxy leads the links of a page through itself", async () => {
  const cloud = await through();
  const page = await cloud.call<{ networks_links: { rel: string; href: string }[] }>(
    "network",
    "GET",
    "/networks?limit=1",
  );
  const next = page.networks_links.find((link) => link.rel === "next")?.href ?? "";
  assert.equal(
    new URL(next).origin + "/network",
    new URL(PROXY_AUTH_URL).origin + new URL(next).pathname.slice(0, 8),
  );
});

Deno.test("proxy answers a status, and the service never hears of the call", async () => {
  await using group = await named();
  const cloud = await through();
  const headers = { "retry-after": "7" };
  const action = { kind: "status", code: 503, body: '{"NeutronError": {"type": "Busy"}}', headers } as const;
  await withFault(onCreate(group.name, action, { times: 1 }), async () => {
    const failed = cloud.create("security-groups", { name: group.name });
    await assert.rejects(failed, { name: "CloudError", status: 503, type: "Busy" });
    assert.equal(await group.count(), 0);
    await cloud.create("security-groups", { name: group.name });
  });
  assert.equal(await group.count(), 1);
});

Deno.test("proxy delays a call", async () => {
  const cloud = await through();
  const started = performance.now();
  const rule: Rule = {
    id: "slow",
    match: { path: "^/network/v2.0/networks" },
    action: { kind: "delay", ms: 700 },
  };
  await withFault(rule, () => cloud.list("networks"));
  assert.ok(performance.now() - started >= 700);
});

Deno.test("proxy cuts before the call, which is then not made", async () => {
  await using group = await named();
  const cloud = await through();
  await withFault(onCreate(group.name, { kind: "cut-before" }), async () => {
    await assert.rejects(cloud.create("security-groups", { name: group.name }), TypeError);
  });
  assert.equal(await group.count(), 0);
});

Deno.test("proxy cuts after the call, which is then made all the same", async () => {
  await using group = await named();
  const cloud = await through();
  await withFault(onCreate(group.name, { kind: "cut-after" }), async () => {
    await assert.rejects(cloud.create("security-groups", { name: group.name }), TypeError);
  });
  assert.equal(await group.count(), 1);
});

Deno.test("proxy breaks the body of an answer and leaves its status", async () => {
  await using group = await named();
  const cloud = await through();
  await withFault(onCreate(group.name, { kind: "broken-body" }), async () => {
    await assert.rejects(cloud.create("security-groups", { name: group.name }), SyntaxError);
  });
  assert.equal(await group.count(), 1);
});

Deno.test("proxy ends an answer in its middle", async () => {
  await using group = await named();
  const cloud = await through();
  await withFault(onCreate(group.name, { kind: "truncate" }), async () => {
    await assert.rejects(cloud.create("security-groups", { name: group.name }), TypeError);
  });
  assert.equal(await group.count(), 1);
});

Deno.test("proxy lets calls by, hits so many, and tells how many", async () => {
  const cloud = await through();
  const rule: Rule = {
    id: "second",
    match: { method: "GET", path: "^/network/v2.0/networks" },
    skip: 1,
    times: 2,
    action: { kind: "status", code: 500 },
  };
  await withFault(rule, async (hits) => {
    const outcomes: number[] = [];
    for (let i = 0; i < 4; i++) {
      outcomes.push(await cloud.list("networks").then(() => 200, (error) => error.status));
    }
    assert.deepEqual(outcomes, [200, 500, 500, 200]);
    assert.equal(await hits(), 2);
  });
  const { calls } = await proxyLog(10);
  assert.ok(
    calls.some((call) => call.rule === "second" && call.status === 500 && call.upstream === undefined),
  );
});

Deno.test("proxy answers 401 for a token, and the client signs in again", async () => {
  const cloud = await through();
  const rule: Rule = {
    id: "expired",
    match: { path: "^/compute/" },
    times: 1,
    action: { kind: "status", code: 401 },
  };
  await withFault(rule, async () => assert.equal((await cloud.servers()).length, 2));
});

Deno.test("withFault() throws when its fault was never hit", async () => {
  const rule: Rule = { id: "never", match: { path: "^/volume/" }, action: { kind: "cut-before" } };
  await assert.rejects(withFault(rule, () => Promise.resolve()), /test of never: the fault was never hit/);
});
