import assert from "node:assert/strict";
import { eventually } from "../process/eventually.ts";
import { createLog } from "../process/log.ts";
import { type Cache, type CacheOptions, startCache } from "./cache.ts";
import { createKubeClient, type OwnedKubeClient } from "./client.ts";
import { CONFIG_MAPS, type ConfigMap } from "./kinds.ts";
import { type LoopbackApiServer, startLoopbackApiServer, statusAnswer } from "./loopback_apiserver.ts";

const A = "/api/v1/namespaces/a/configmaps";
const B = "/api/v1/namespaces/b/configmaps";
const FAST: CacheOptions = { backoffMs: 5, maxBackoffMs: 20, timeoutSeconds: [300, 600] };

function map(name: string, { namespace = "a", value = "1" } = {}): ConfigMap {
  return { metadata: { name, namespace }, data: { value } };
}

interface World extends AsyncDisposable {
  api: LoopbackApiServer;
  client: OwnedKubeClient;
  cache: Cache<ConfigMap>;
  changes: string[];
}

/** A server with `a/one` and `b/two`, and a cache of it whose changes are written down. */
async function world(options: CacheOptions = {}): Promise<World> {
  const api = startLoopbackApiServer();
  api.put(A, map("one"));
  api.put(B, map("two", { namespace: "b" }));
  const client = createKubeClient(api.connection);
  const cache = startCache(client, CONFIG_MAPS, { ...FAST, ...options });
  const changes: string[] = [];
  cache.onChange((type, { metadata, data }, old) =>
    changes.push(`${type} ${metadata?.name} ${data?.value}${old ? ` was ${old.data?.value}` : ""}`)
  );
  await cache.synced(AbortSignal.timeout(5_000));
  await eventually("a watch", () => api.watches() > 0);
  return {
    api,
    client,
    cache,
    changes,
    async [Symbol.asyncDispose]() {
      await cache[Symbol.asyncDispose]();
      client[Symbol.dispose]();
      await api[Symbol.asyncDispose]();
    },
  };
}

Deno.test("startCache() lists, then follows what is added, modified and deleted", async () => {
  await using at = await world();
  assert(at.cache.hasSynced());
  assert.deepEqual(at.changes.splice(0).sort(), ["added one 1", "added two 1"]);
  at.api.put(A, map("three"));
  at.api.put(A, map("one", { value: "2" }));
  at.api.remove(`${B}/two`);
  await eventually("three changes", () => at.changes.length === 3);
  assert.deepEqual(at.changes, ["added three 1", "modified one 2 was 1", "deleted two 1"]);
  assert.equal(at.cache.get("a", "one")?.data?.value, "2");
  assert.equal(at.cache.get("b", "two"), undefined);
  assert.deepEqual(at.cache.list().map((each) => each.metadata?.name), ["one", "three"]);
  assert.deepEqual(at.cache.list("b"), []);
});

Deno.test("startCache() drops managedFields and fills in apiVersion and kind", async () => {
  await using at = await world();
  at.api.put(A, map("three"));
  const three = await eventually("the new object", () => at.cache.get("a", "three"));
  for (const object of [three, at.cache.get("a", "one")]) {
    assert.equal(object?.metadata?.managedFields, undefined);
    assert.deepEqual([object?.apiVersion, object?.kind], ["v1", "ConfigMap"]);
  }
});

Deno.test("startCache() asks for bookmarks, a random life, selectors and pages", async () => {
  await using at = await world({
    labelSelector: "x=y",
    fieldSelector: "metadata.name=one",
    random: () => 0.5,
    pageSize: 1,
  });
  const lists = at.api.requests.filter(({ query }) => !query.get("watch"));
  assert.deepEqual(lists.map(({ query }) => [query.get("limit"), query.get("continue")]), [["1", null], [
    "1",
    "1",
  ]]);
  const watch = at.api.requests.find(({ query }) => query.get("watch"));
  assert.equal(watch?.query.get("timeoutSeconds"), "450");
  assert.equal(watch?.query.get("allowWatchBookmarks"), "true");
  for (const { query } of at.api.requests) {
    assert.deepEqual([query.get("labelSelector"), query.get("fieldSelector")], ["x=y", "metadata.name=one"]);
  }
});

Deno.test("startCache() follows each of the given namespaces and no other", async () => {
  await using at = await world({ namespaces: ["a", "c"] });
  await eventually("two watches", () => at.api.watches() === 2);
  at.api.put(B, map("other", { namespace: "b" }));
  at.api.put("/api/v1/namespaces/c/configmaps", map("four", { namespace: "c" }));
  await eventually("the object of c", () => at.cache.get("c", "four"));
  assert.deepEqual(at.cache.list().map((each) => each.metadata?.name), ["one", "four"]);
});

Deno.test("onChange() tells a late handler what is there, and stops when told to", async () => {
  await using at = await world();
  const seen: string[] = [];
  const stop = at.cache.onChange((type, { metadata }) => seen.push(`${type} ${metadata?.name}`));
  assert.deepEqual(seen.splice(0).sort(), ["added one", "added two"]);
  stop();
  at.api.put(A, map("three"));
  await eventually("the new object", () => at.cache.get("a", "three"));
  assert.deepEqual(seen, []);
});

Deno.test("startCache() goes on when a handler throws", async () => {
  const lines: string[] = [];
  await using at = await world({ log: createLog({ write: (line) => lines.push(line) }) });
  at.cache.onChange((_type, { metadata }) => {
    if (metadata?.name === "bad") throw new Error("handler is broken");
  });
  at.api.put(A, map("bad"));
  at.api.put(A, map("good"));
  await eventually("the object after", () => at.cache.get("a", "good"));
  assert.equal(at.cache.stats().handlerErrors, 1);
  assert.match(lines.join("\n"), /handler is broken/);
});

Deno.test("startCache() watches on from the last version when the server ends the watch", async () => {
  await using at = await world();
  at.api.put(A, map("three"));
  await eventually("the new object", () => at.cache.get("a", "three"));
  at.api.endWatches();
  await eventually("a new watch", () => at.api.watches() === 1);
  at.api.put(A, map("four"));
  await eventually("the object after", () => at.cache.get("a", "four"));
  assert.equal(at.cache.stats().lists, 1);
  assert.equal(at.cache.stats().errors, 0);
});

Deno.test("startCache() lists again and tells the differences when the version is too old", async () => {
  for (const told of [true, false]) {
    await using at = await world();
    at.changes.length = 0;
    // Everything happens while nobody looks: the watch is muted, and the history is gone before the next.
    at.api.muteWatches();
    at.api.put(A, map("one", { value: "2" }));
    at.api.put(A, map("three"));
    at.api.remove(`${B}/two`);
    at.api.compact({ told });
    at.api.endWatches();
    await eventually("the differences", () => at.changes.length === 3);
    assert.deepEqual(at.changes.sort(), ["added three 1", "deleted two 1", "modified one 2 was 1"]);
    assert.equal(at.cache.stats().lists, 2);
  }
});

Deno.test("startCache() tells deleted and added when an object was replaced by one of its name", async () => {
  await using at = await world();
  at.changes.length = 0;
  at.api.muteWatches();
  at.api.remove(`${A}/one`);
  at.api.put(A, map("one", { value: "2" }));
  at.api.compact();
  at.api.endWatches();
  await eventually("both", () => at.changes.length === 2);
  assert.deepEqual(at.changes, ["deleted one 1", "added one 2"]);
});

Deno.test("startCache() survives watches that are cut, 50 times, without a socket left", async () => {
  await using at = await world();
  for (let round = 0; round < 50; round++) {
    await eventually("a watch", () => at.api.watches() === 1);
    at.api.put(A, map("one", { value: `round ${round}` }));
    await eventually("the change", () => at.cache.get("a", "one")?.data?.value === `round ${round}`);
    at.api.cutWatches();
  }
  await eventually("a watch", () => at.api.watches() === 1);
  await eventually("sockets are flat", async () => await at.api.sockets() <= 6);
  assert.equal(at.cache.stats().errors, 50);
});

Deno.test("startCache() aborts and lists again when the server is silent for too long", async () => {
  await using at = await world({ timeoutSeconds: [0, 0], graceMs: 150 });
  at.api.muteWatches();
  at.api.put(A, map("one", { value: "2" }));
  await eventually("the change", () => at.cache.get("a", "one")?.data?.value === "2");
  assert(at.cache.stats().stalls >= 1);
  await eventually("sockets are flat", async () => await at.api.sockets() <= 6);
});

Deno.test("startCache() expects bookmarks once it has seen one", async () => {
  await using at = await world({ bookmarkSilenceMs: 100 });
  at.api.bookmark();
  at.api.muteWatches();
  at.api.put(A, map("one", { value: "2" }));
  await eventually("the change", () => at.cache.get("a", "one")?.data?.value === "2");
  assert.equal(at.cache.stats().stalls, 1);
});

Deno.test("startCache() takes the version of a bookmark when it watches on", async () => {
  await using at = await world();
  at.api.put("/api/v1/nodes", { metadata: { name: "n" } });
  at.api.bookmark();
  at.api.requests.length = 0;
  at.api.endWatches();
  const next = await eventually(
    "the next watch",
    () => at.api.requests.find(({ query }) => query.get("watch")),
  );
  assert.equal(next.query.get("resourceVersion"), at.api.read("/api/v1/nodes/n")?.metadata?.resourceVersion);
});

Deno.test("startCache() syncs late when the API server refuses at first", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  let refusals = 3;
  api.intercept = () => refusals-- > 0 ? statusAnswer(403, "Forbidden") : undefined;
  api.put(A, map("one"));
  await using cache = startCache(client, CONFIG_MAPS, FAST);
  assert.equal(cache.hasSynced(), false);
  await assert.rejects(cache.synced(AbortSignal.abort(new RangeError("enough"))), RangeError);
  await cache.synced(AbortSignal.timeout(5_000));
  assert.equal(cache.get("a", "one")?.data?.value, "1");
  assert.equal(cache.stats().errors, 3);
});

Deno.test("startCache() reads a broken line as a failure and goes on", async () => {
  await using at = await world();
  let broken = 1;
  at.api.intercept = ({ query }) =>
    query.get("watch") && broken-- > 0 ? new Response("{nonsense\n") : undefined;
  at.api.endWatches();
  await eventually("the failure", () => at.cache.stats().errors === 1);
  at.api.put(A, map("three"));
  await eventually("the object after", () => at.cache.get("a", "three"));
});

Deno.test("startCache() ends with its signal, and synced() then rejects", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  api.intercept = () => statusAnswer(403, "Forbidden");
  const controller = new AbortController();
  await using cache = startCache(client, CONFIG_MAPS, { ...FAST, signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(cache.synced(), /was ended/);
});
