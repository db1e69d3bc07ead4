import assert from "node:assert/strict";
import { createKubeClient } from "./client.ts";
import { isConflict, isNotFound } from "./errors.ts";
import { CONFIG_MAPS, type ConfigMap } from "./kinds.ts";
import { startLoopbackApiServer, statusAnswer } from "./loopback_apiserver.ts";
import { create, get, list, mergePatch, remove, replace } from "./objects.ts";

const MAPS = "/api/v1/namespaces/a/configmaps";
const at = { namespace: "a", name: "x" };

function world() {
  const api = startLoopbackApiServer();
  const client = createKubeClient(api.connection);
  return {
    api,
    client,
    async [Symbol.asyncDispose]() {
      client[Symbol.dispose]();
      await api[Symbol.asyncDispose]();
    },
  };
}

function map(value: string, name = "x"): ConfigMap {
  return { metadata: { namespace: "a", name }, data: { value } };
}

Deno.test("get() gives undefined for what is not there, and throws for other refusals", async () => {
  await using lab = world();
  const { api, client } = lab;
  assert.equal(await get(client, CONFIG_MAPS, at), undefined);
  api.put(MAPS, map("1"));
  assert.equal((await get(client, CONFIG_MAPS, at))?.data?.value, "1");
  api.intercept = () => statusAnswer(403, "Forbidden");
  await assert.rejects(get(client, CONFIG_MAPS, at), { code: 403, reason: "Forbidden" });
});

Deno.test("list() reads all pages, and starts again when they expire on the way", async () => {
  await using lab = world();
  const { api, client } = lab;
  for (const name of ["a", "b", "c", "d", "e"]) api.put(MAPS, map("1", name));
  let expire = 1;
  api.intercept = ({ query }) =>
    query.get("continue") === "4" && expire-- > 0 ? statusAnswer(410, "Expired") : undefined;
  const { items, resourceVersion } = await list(client, CONFIG_MAPS, { pageSize: 2 });
  assert.deepEqual(items.map((each) => each.metadata?.name), ["a", "b", "c", "d", "e"]);
  assert.equal(items[0]?.kind, "ConfigMap");
  assert.equal(resourceVersion, "6");
  assert.equal(api.requests.length, 6);
});

Deno.test("create() throws AlreadyExists, which is no conflict", async () => {
  await using lab = world();
  const { client } = lab;
  await create(client, CONFIG_MAPS, { object: map("1") });
  const error = await create(client, CONFIG_MAPS, { object: map("1") }).catch((error: unknown) => error);
  assert.equal((error as { reason?: string }).reason, "AlreadyExists");
  assert.equal(isConflict(error), false);
});

Deno.test("replace() writes only over the version that was read", async () => {
  await using lab = world();
  const { client } = lab;
  const first = await create(client, CONFIG_MAPS, { object: map("1") });
  await replace(client, CONFIG_MAPS, { object: { ...first, data: { value: "2" } } });
  const stale = await replace(client, CONFIG_MAPS, { object: { ...first, data: { value: "3" } } })
    .catch((error: unknown) => error);
  assert(isConflict(stale));
  await assert.rejects(replace(client, CONFIG_MAPS, { object: map("1", "none") }), isNotFound);
});

Deno.test("mergePatch() changes what it names", async () => {
  await using lab = world();
  const { api, client } = lab;
  api.put(MAPS, map("1"));
  const patched = await mergePatch<ConfigMap>(client, CONFIG_MAPS, {
    ...at,
    patch: { data: { value: null, other: "2" } },
  });
  assert.deepEqual(patched.data, { other: "2" });
  assert.equal(api.requests[0]?.headers.get("content-type"), "application/merge-patch+json");
});

Deno.test("remove() says whether there was one, and spares one of another uid", async () => {
  await using lab = world();
  const { api, client } = lab;
  assert.equal(await remove(client, CONFIG_MAPS, at), false);
  const uid = api.put(MAPS, map("1")).metadata?.uid;
  assert.equal(await remove(client, CONFIG_MAPS, { ...at, uid: "other" }), false);
  assert(api.read(`${MAPS}/x`));
  assert.equal(await remove(client, CONFIG_MAPS, { ...at, uid, gracePeriodSeconds: 0 }), true);
  assert.deepEqual(api.requests.at(-1)?.body, {
    apiVersion: "v1",
    kind: "DeleteOptions",
    propagationPolicy: "Background",
    gracePeriodSeconds: 0,
    preconditions: { uid },
  });
});
