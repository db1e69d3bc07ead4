import assert from "node:assert/strict";
import { KubeError } from "../kube/errors.ts";
import { named } from "./owned.ts";

Deno.test("named() says the object where the error said the call, and keeps the rest", () => {
  const error = new KubeError(
    'Cannot PATCH /api/v1/namespaces/t/configmaps/gw-nat: 403 Forbidden: configmaps "gw-nat" is forbidden: no $& room',
    { code: 403, reason: "Forbidden" },
  );
  const told = named(error, 'ConfigMap "t/gw-$&"');
  assert.equal(
    told.message,
    'Cannot apply ConfigMap "t/gw-$&": 403 Forbidden: configmaps "gw-nat" is forbidden: no $& room',
  );
  assert.deepEqual([told.code, told.reason, told.cause], [403, "Forbidden", error]);
});

Deno.test("named() leaves an error alone when it names no call", () => {
  const error = new KubeError("Cannot reach the API server", { code: 0, reason: "Unreachable" });
  assert.equal(named(error, "x").message, error.message);
});
