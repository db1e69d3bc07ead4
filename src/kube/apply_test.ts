import assert from "node:assert/strict";
import fc from "fast-check";
import { applyIfChanged, ForeignObjectError, isSubset } from "./apply.ts";
import { createKubeClient } from "./client.ts";
import { CONFIG_MAPS, type ConfigMap } from "./kinds.ts";
import { startLoopbackApiServer } from "./loopback_apiserver.ts";
import type { ObjectMeta } from "./resource.ts";

const MAPS = "/api/v1/namespaces/a/configmaps";
const OURS = { "app.kubernetes.io/managed-by": "op" };

function map(data: Record<string, string>, metadata: ObjectMeta = {}): ConfigMap {
  return { metadata: { name: "x", namespace: "a", labels: OURS, ...metadata }, data };
}

function world() {
  const api = startLoopbackApiServer();
  const client = createKubeClient(api.connection);
  return {
    api,
    writes: () => api.requests.filter(({ method }) => method !== "GET"),
    apply: (object: ConfigMap, options: { live?: ConfigMap | null; digestAnnotation?: string } = {}) =>
      applyIfChanged(client, CONFIG_MAPS, {
        object,
        fieldManager: "op",
        isOurs: ({ metadata }) => metadata?.labels?.["app.kubernetes.io/managed-by"] === "op",
        ...options,
      }),
    async [Symbol.asyncDispose]() {
      client[Symbol.dispose]();
      await api[Symbol.asyncDispose]();
    },
  };
}

Deno.test("applyIfChanged() creates, leaves alone, updates", async () => {
  await using at = world();
  const created = await at.apply(map({ a: "1" }));
  assert.equal(created.action, "created");
  assert.equal((await at.apply(map({ a: "1" }))).action, "unchanged");
  assert.equal(at.writes().length, 1);
  assert.equal((await at.apply(map({ a: "2" }))).action, "updated");
  const [, update] = at.writes();
  assert.equal(update?.headers.get("content-type"), "application/apply-patch+yaml");
  assert.equal(update?.query.toString(), "fieldManager=op&force=true");
  // Bound to the very object that was looked at.
  assert.equal((update?.body as ConfigMap).metadata?.uid, created.object.metadata?.uid);
});

Deno.test("applyIfChanged() takes the live object from a cache when it is given", async () => {
  await using at = world();
  await at.apply(map({ a: "1" }), { live: null });
  assert.equal((await at.apply(map({ a: "1" }), { live: map({ a: "1", other: "x" }) })).action, "unchanged");
  assert.deepEqual(at.api.requests.map(({ method }) => method), ["PATCH"]);
});

Deno.test("applyIfChanged() looks again when the cache was behind", async () => {
  await using at = world();
  const live = (await at.apply(map({ a: "1" }))).object;
  at.api.remove(`${MAPS}/x`);
  assert.equal((await at.apply(map({ a: "2" }), { live })).action, "created");
  at.api.remove(`${MAPS}/x`);
  at.api.put(MAPS, map({ theirs: "1" }, { labels: {} }));
  await assert.rejects(at.apply(map({ a: "2" }), { live }), ForeignObjectError);
});

Deno.test("applyIfChanged() writes when a field is no longer wanted, by the digest", async () => {
  await using at = world();
  const digestAnnotation = "example.net/digest";
  await at.apply(map({ a: "1", b: "2" }), { digestAnnotation });
  assert.equal((await at.apply(map({ b: "2", a: "1" }), { digestAnnotation })).action, "unchanged");
  assert.equal((await at.apply(map({ a: "1" }), { digestAnnotation })).action, "updated");
});

Deno.test("applyIfChanged() refuses a foreign object and says which and whose", async () => {
  await using at = world();
  const cases: [ObjectMeta, string][] = [
    [{
      labels: {},
      ownerReferences: [{ apiVersion: "v1", kind: "Chart", name: "web", uid: "1", controller: true }],
    }, 'Chart "web"'],
    [
      { labels: { "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "web" } },
      "Helm (web)",
    ],
    [{ labels: {} }, "loopback"],
  ];
  for (const [metadata, owner] of cases) {
    at.api.put(MAPS, map({ theirs: "1" }, metadata));
    const error = await at.apply(map({ a: "1" })).then(() => undefined, (error: unknown) => error);
    assert(error instanceof ForeignObjectError);
    assert.equal(
      error.message,
      `Cannot apply ConfigMap "a/x": an object of that name is there and belongs to ${owner}; rename or remove it`,
    );
  }
  assert.equal(at.writes().length, 0);
});

Deno.test("isSubset() compares lists by length and order, maps by what is wanted", () => {
  const live = { a: 1, list: [{ name: "x", port: 1, protocol: "TCP" }], none: null };
  assert(isSubset({ list: [{ name: "x", port: 1 }] }, live));
  assert(isSubset({ a: 1, gone: undefined, empty: {}, alsoEmpty: [] }, live));
  assert(!isSubset({ list: [] }, live));
  assert(!isSubset({ list: [{ name: "x" }, { name: "y" }] }, live));
  assert(!isSubset({ a: "1" }, live));
  assert(!isSubset({ a: { b: 1 } }, live));
  assert(!isSubset({ missing: { b: 1 } }, live));
  assert(!isSubset({ none: {} }, live) && isSubset({ none: null }, live));
});

Deno.test("isSubset() holds for anything against itself with more fields", () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => isSubset(value, structuredClone(value))));
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.jsonValue(),
      (wanted, extra) => isSubset(wanted, { ...wanted, ["extra field"]: extra }),
    ),
  );
});
