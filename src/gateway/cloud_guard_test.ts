import assert from "node:assert/strict";
import { CLEANUP_FINALIZER, GATEWAYS, type IPsecGateway } from "../api/ipsec_gateway.ts";
import { SECRETS } from "../kube/kinds.ts";
import { statusAnswer } from "../kube/loopback_apiserver.ts";
import { cleanup } from "./cleanup.ts";
import { guardCloudSecret, releaseCloudSecret } from "./cloud_guard.ts";
import { otherGateway, putSecret, startWorld, type World } from "./context_builder.ts";

const GUARD = "ipsec.bnerd.net/cloud-credentials";
const DELETED = "2026-01-02T03:00:00Z";

function using(
  name: string,
  secret = "cloud",
  metadata: Partial<IPsecGateway["metadata"]> = {},
): IPsecGateway {
  const finalizers = [CLEANUP_FINALIZER];
  return otherGateway(name, { openstack: { cloudSecretRef: { name: secret } } }, {
    metadata: { finalizers, ...metadata },
    status: { serviceCIDR: "100.64.0.0/24" },
  });
}

const finalizers = (world: World) => world.read(SECRETS, "cloud")?.metadata?.finalizers ?? [];

/** The Secret "cloud", held by the guard and by somebody else. */
function guarded(world: World): void {
  putSecret(world, "cloud", { "clouds.yaml": "x" });
  const secret = world.read(SECRETS, "cloud");
  world.write(SECRETS, { ...secret, metadata: { ...secret?.metadata, finalizers: ["mine", GUARD] } });
}

Deno.test("guardCloudSecret() adds its finalizer once, beside those that are there", async () => {
  await using world = startWorld();
  putSecret(world, "cloud", { "clouds.yaml": "x" });
  world.put(using("a"));
  await guardCloudSecret(world.context({}, "a"));
  await guardCloudSecret(world.context({}, "a"));
  assert.deepEqual(finalizers(world), [GUARD]);
  assert.equal(world.api.requests.filter(({ method }) => method === "PATCH").length, 1);
});

Deno.test("guardCloudSecret() leaves a Secret alone that is being deleted, is missing, or is none of the gateway's", async () => {
  await using world = startWorld();
  world.write(SECRETS, { metadata: { name: "cloud", deletionTimestamp: DELETED, finalizers: ["mine"] } });
  world.put(using("a"));
  await guardCloudSecret(world.context({}, "a"));
  assert.deepEqual(finalizers(world), ["mine"]);
  world.put(using("b", "not-there"));
  await guardCloudSecret(world.context({}, "b"));
  world.put(otherGateway("c"));
  await guardCloudSecret(world.context({}, "c"));
  assert.deepEqual(world.api.requests.filter(({ method }) => method !== "GET"), []);
});

Deno.test("guardCloudSecret() reads again when somebody else has written the Secret in between", async () => {
  await using world = startWorld();
  putSecret(world, "cloud", { "clouds.yaml": "x" });
  world.put(using("a"));
  let refusals = 1;
  world.intercept = ({ method }) =>
    method === "PATCH" && refusals-- > 0 ? statusAnswer(409, "Conflict") : undefined;
  await guardCloudSecret(world.context({}, "a"));
  assert.deepEqual(finalizers(world), [GUARD]);
});

Deno.test("releaseCloudSecret() keeps the guard while another gateway names the Secret", async () => {
  await using world = startWorld();
  guarded(world);
  world.put(using("a", "cloud", { deletionTimestamp: DELETED }));
  world.put(using("b"));
  await releaseCloudSecret(world.context({}, "a"));
  assert.deepEqual(finalizers(world), ["mine", GUARD]);
});

Deno.test("releaseCloudSecret() takes only its own finalizer off when no other gateway names the Secret", async () => {
  await using world = startWorld();
  guarded(world);
  world.put(using("a"));
  world.put(using("b", "another"));
  await releaseCloudSecret(world.context({}, "a"));
  assert.deepEqual(finalizers(world), ["mine"]);
});

Deno.test("releaseCloudSecret() does not wait for a gateway that is cleaned up and held by somebody else", async () => {
  await using world = startWorld();
  guarded(world);
  world.put(using("a"));
  world.put(using("b", "cloud", { deletionTimestamp: DELETED, finalizers: ["foregroundDeletion"] }));
  await releaseCloudSecret(world.context({}, "a"));
  assert.deepEqual(finalizers(world), ["mine"]);
});

Deno.test("cleanup() lets go of the Secret when two gateways that share it are deleted at once", async () => {
  await using world = startWorld();
  guarded(world);
  for (const name of ["a", "b"]) world.put(using(name, "cloud", { deletionTimestamp: DELETED }));
  // Both have their list of gateways before either goes on, were it not for the lock.
  const cleaned = await Promise.all(["a", "b"].map((name) => cleanup(world.context({}, name))));
  assert.deepEqual(cleaned, [{ kind: "gone" }, { kind: "gone" }]);
  assert.deepEqual(["a", "b"].map((name) => world.read(GATEWAYS, name)), [undefined, undefined]);
  assert.deepEqual(finalizers(world), ["mine"]);
});
