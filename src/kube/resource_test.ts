import assert from "node:assert/strict";
import { CONFIG_MAPS, DEPLOYMENTS, NODES } from "./kinds.ts";
import { apiVersion, describe, keyOf, pathOf, splitKey } from "./resource.ts";

Deno.test("pathOf() gives the paths of objects, collections and subresources", () => {
  assert.equal(pathOf(CONFIG_MAPS), "/api/v1/configmaps");
  assert.equal(pathOf(CONFIG_MAPS, { namespace: "a", name: "x" }), "/api/v1/namespaces/a/configmaps/x");
  assert.equal(
    pathOf(DEPLOYMENTS, { namespace: "a", name: "x", subresource: "status" }),
    "/apis/apps/v1/namespaces/a/deployments/x/status",
  );
  assert.equal(pathOf(NODES, { namespace: "ignored", name: "n" }), "/api/v1/nodes/n");
  assert.equal(pathOf(NODES, { name: "a/../b" }), "/api/v1/nodes/a%2F..%2Fb");
});

Deno.test("pathOf() throws when the namespace of an object is missing", () => {
  assert.throws(
    () => pathOf(CONFIG_MAPS, { name: "x" }),
    /Cannot address ConfigMap "x": its namespace is not given/,
  );
});

Deno.test("keyOf() and splitKey() agree", () => {
  assert.equal(keyOf({ metadata: { namespace: "a", name: "x" } }), "a/x");
  assert.deepEqual(splitKey("a/x"), { namespace: "a", name: "x" });
  assert.deepEqual(splitKey(keyOf({ metadata: { name: "x" } })), { namespace: undefined, name: "x" });
});

Deno.test("describe() and apiVersion() are what messages and bodies say", () => {
  assert.equal(describe(CONFIG_MAPS, { namespace: "a", name: "x" }), 'ConfigMap "a/x"');
  assert.equal(apiVersion(DEPLOYMENTS), "apps/v1");
  assert.equal(apiVersion(NODES), "v1");
});
