// Our watch cache against the real API server of the lab (`./run lab up k8s`).
import assert from "node:assert/strict";
import { startCache } from "../src/kube/cache.ts";
import { createKubeClient } from "../src/kube/client.ts";
import { isExpired, KubeError } from "../src/kube/errors.ts";
import { CONFIG_MAPS, NETWORK_ATTACHMENT_DEFINITIONS } from "../src/kube/kinds.ts";
import { create, list, mergePatch, remove } from "../src/kube/objects.ts";
import { pathOf } from "../src/kube/resource.ts";
import { eventually } from "../src/process/eventually.ts";
import { CLUSTER_SECONDS, map, relay, world } from "./kube_place.ts";

Deno.test("startCache() follows 1,200 objects over pages and watches that end, listing once", async () => {
  await using at = await world();
  const { client, namespace } = at;
  const make = (n: number) =>
    create(client, CONFIG_MAPS, { object: map(namespace, `m${n}`, { n: String(n) }) });
  for (let n = 0; n < 1_200; n += 40) {
    await Promise.all(Array.from({ length: 40 }, (_, each) => make(n + each)));
  }
  const counts = { added: 0, modified: 0, deleted: 0 };
  // A watch ends after one to two seconds, so that several come and go.
  await using cache = startCache(client, CONFIG_MAPS, {
    namespaces: [namespace],
    timeoutSeconds: [1, 2],
    pageSize: 250,
  });
  cache.onChange((type) => counts[type]++);
  await cache.synced(AbortSignal.timeout(20_000));
  const before = cache.stats().objects;
  assert(before >= 1_200);
  await eventually("three watches", () => cache.stats().watches >= 3, CLUSTER_SECONDS);
  for (let n = 0; n < 20; n++) {
    await mergePatch(client, CONFIG_MAPS, { namespace, name: `m${n}`, patch: { data: { n: "changed" } } });
    await remove(client, CONFIG_MAPS, { namespace, name: `m${n + 100}` });
    await make(n + 5_000);
  }
  await eventually("all changes", () => counts.modified === 20 && counts.deleted === 20, CLUSTER_SECONDS);
  const truth = (await list(client, CONFIG_MAPS, { namespace })).items;
  await eventually("the same objects", () => cache.stats().objects === truth.length, CLUSTER_SECONDS);
  for (const { metadata, data } of truth) {
    assert.deepEqual(cache.get(namespace, metadata?.name ?? "")?.data, data);
  }
  assert.deepEqual([cache.stats().lists, cache.stats().errors], [1, 0]);
  assert.equal(cache.list()[0]?.metadata?.managedFields, undefined);
});

Deno.test("startCache() finds its way back after silence and after cuts, with connections flat", async () => {
  await using at = await world();
  const { client, namespace } = at;
  await using way = relay(at.connection);
  using through = createKubeClient(way.connection);
  await using cache = startCache(through, CONFIG_MAPS, {
    namespaces: [namespace],
    timeoutSeconds: [1, 1],
    graceMs: 1_000,
    backoffMs: 20,
    maxBackoffMs: 50,
  });
  const see = async (name: string) => {
    await create(client, CONFIG_MAPS, { object: map(namespace, name, {}) });
    await eventually(`${name} is seen`, () => cache.get(namespace, name), CLUSTER_SECONDS);
  };
  await see("first");
  way.mute();
  await see("after-silence");
  assert(cache.stats().stalls >= 1);
  for (let round = 0; round < 20; round++) {
    way.cut();
    await see(`after-cut-${round}`);
  }
  await eventually("connections are flat", () => way.open() <= 3, CLUSTER_SECONDS);
});

Deno.test("a watch from a version that is too old is seen as expired", async () => {
  await using at = await world();
  const { client, namespace } = at;
  // Of a kind that was defined after the server's start: its watch cache never held a version this old. Whether that of
  // a built-in kind does depends on the moment at which the server first listed it.
  const watch = { method: "GET", path: pathOf(NETWORK_ATTACHMENT_DEFINITIONS) } as const;
  const expired = await (async () => {
    await using lines = await client.stream({ ...watch, query: { watch: true, resourceVersion: "1" } });
    for await (const line of lines) return JSON.parse(line);
  })().catch((error: unknown) => error);
  const seen = expired instanceof KubeError
    ? expired
    : new KubeError("", { code: expired.object.code, reason: expired.object.reason });
  assert(isExpired(seen), JSON.stringify(expired));
  // The pages of a list expire as well; only its form can be had here.
  const error = await client.request({
    method: "GET",
    path: `/api/v1/namespaces/${namespace}/configmaps`,
    query: { limit: 1, continue: "nonsense" },
  }).catch((error: unknown) => error);
  assert(error instanceof KubeError && error.code === 400);
});
