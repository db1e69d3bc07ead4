import assert from "node:assert/strict";
import { CLEANUP_FINALIZER, type IPsecGateway } from "../api/ipsec_gateway.ts";
import { createKubeClient } from "../kube/client.ts";
import { DEPLOYMENTS, PODS } from "../kube/kinds.ts";
import { type LoopbackApiServer, startLoopbackApiServer, statusAnswer } from "../kube/loopback_apiserver.ts";
import { startCloudDouble } from "../openstack/cloud_double.ts";
import { silentLog } from "../process/log.ts";
import { cleanup, reachedOpenStack } from "./cleanup.ts";
import { createClouds } from "./clouds.ts";
import type { GatewayContext } from "./context.ts";
import { floatingIP, gatewayOptions, node, PINNED, startWorld } from "./context_builder.ts";
import { gateway } from "./gateway_builder.ts";
import { ownerTag } from "./names.ts";

Deno.test("reachedOpenStack() says no when a gateway was never given a service CIDR", () => {
  assert.equal(reachedOpenStack({ gateway: gateway() }), false);
  const condition = {
    type: "Validated",
    status: "False" as const,
    reason: "CloudCredentialsInvalid",
    message: "no",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  assert.equal(reachedOpenStack({ gateway: gateway({}, { status: { conditions: [condition] } }) }), false);
});

Deno.test("reachedOpenStack() says yes when a service CIDR was given: the next step may have been cut off", () => {
  const status = { serviceCIDR: "100.64.0.0/24" };
  assert.equal(reachedOpenStack({ gateway: gateway({}, { status }) }), true);
});

const GATEWAYS = "/apis/ipsec.bnerd.net/v1alpha1/namespaces/tenant/ipsecgateways";
const SECRETS = "/api/v1/namespaces/tenant/secrets";

/** A gateway that is being deleted, with its cloud Secret, on an API server and a cloud of its own. */
function deleting(api: LoopbackApiServer, clouds: Record<string, unknown>): void {
  const deletionTimestamp = "2026-01-01T00:00:00Z";
  api.put(
    GATEWAYS,
    gateway({ openstack: { cloudSecretRef: { name: "cloud" } } }, {
      status: { serviceCIDR: "100.64.0.0/24" },
      metadata: { deletionTimestamp, finalizers: [CLEANUP_FINALIZER] },
    }),
  );
  const secret = {
    metadata: { name: "cloud", deletionTimestamp, finalizers: ["ipsec.bnerd.net/cloud-credentials"] },
    data: { "clouds.yaml": btoa(JSON.stringify({ clouds })) },
  };
  api.put(SECRETS, secret);
}

const options = gatewayOptions();

/** A round on what the API server has now. */
function contextOf(
  api: LoopbackApiServer,
  { kube, clouds }: Pick<GatewayContext, "kube" | "clouds">,
): GatewayContext {
  return {
    gateway: api.read(`${GATEWAYS}/gw`) as IPsecGateway,
    facts: {},
    kube,
    clouds,
    options,
    nodes: () => [],
    gateways: () => [],
    apiServer: undefined,
    resolve: () => Promise.resolve([]),
    oneAtATime: (run) => run(),
    now: () => new Date(),
    log: silentLog,
    signal: new AbortController().signal,
    saveFacts: () => Promise.resolve(),
  };
}

Deno.test("cleanup() ends after it was killed when the guard was off the Secret and the finalizer still there", async () => {
  await using api = startLoopbackApiServer();
  await using double = startCloudDouble();
  const tag = ownerTag(gateway());
  double.items["security-groups"]?.push({
    ...{ id: "G", name: "ipsec-tenant-gw", tags: [tag], description: "", security_group_rules: [] },
  });
  const auth = { auth_url: double.cloud.authURL, user_id: "u", password: "sesame", project_id: "p" };
  deleting(api, { double: { auth } });
  using kube = createKubeClient(api.connection);
  await using clouds = createClouds({ kube, openstack: options.openstack });
  const round = () => cleanup(contextOf(api, { kube, clouds }));

  // Killed: the API server sees nothing of us after the Secret was let go.
  api.intercept = ({ method, path }) =>
    method === "PATCH" && path === `${GATEWAYS}/gw` &&
      (api.read(`${SECRETS}/cloud`)?.metadata?.finalizers ?? []).length === 0
      ? statusAnswer(500, "InternalError")
      : undefined;
  await assert.rejects(round(), /InternalError/);
  assert.deepEqual(double.items["security-groups"]?.map(({ id }) => id), []);
  api.remove(`${SECRETS}/cloud`);

  api.intercept = () => undefined;
  assert.deepEqual(await round(), { kind: "gone" });
  assert.deepEqual(api.read(`${GATEWAYS}/gw`)?.metadata?.finalizers, []);
});

Deno.test("cleanup() does not let go of a gateway whose credentials are gone and that may have something there", async () => {
  await using api = startLoopbackApiServer();
  deleting(api, {});
  api.remove(`${SECRETS}/cloud`);
  using kube = createKubeClient(api.connection);
  await using clouds = createClouds({ kube, openstack: options.openstack });
  await assert.rejects(cleanup(contextOf(api, { kube, clouds })), /Cannot find Secret tenant\/cloud/);
});

Deno.test("cleanup() waits for the pod, and leaves everything of OpenStack until it has ended", async () => {
  await using world = startWorld();
  await world.run();
  world.remove();
  const calls = world.double.calls.length;
  assert.deepEqual(await cleanup(world.context()), {
    kind: "waiting",
    for: "pods gw-pod of IPsecGateway tenant/gw to end",
    pollMs: 2_000,
  });
  assert.equal(world.read(DEPLOYMENTS, "gw"), undefined);
  assert.equal(world.double.calls.length, calls);
});

Deno.test("cleanup() detaches before the floating IP is let go when the pod is on a lost node, then deletes the pod", async () => {
  await using world = startWorld();
  await world.run(gateway({ endpoint: { floatingIP: PINNED } }));
  world.nodes = [node("node-1", { notReadyMs: 61_000 })];
  world.remove();
  world.double.detachReads = 2;
  const port = world.item("ports", ({ id }) => id !== "R-port");
  const waiting = await cleanup(world.context());
  assert.equal(waiting.kind === "waiting" && waiting.for.includes("still attached to server A"), true);
  assert.equal(world.item("floatingips").port_id, port.id);
  assert.ok(world.read(PODS, "gw-pod"));

  let cleaned = await cleanup(world.context());
  for (let round = 0; cleaned.kind !== "gone" && round < 5; round++) cleaned = await cleanup(world.context());
  assert.deepEqual(cleaned, { kind: "gone" });
  assert.equal(world.read(PODS, "gw-pod"), undefined);
  assert.deepEqual(world.items("ports").map(({ id }) => id), ["R-port"]);
  // The customer's address stays, without our mark.
  const { port_id, tags } = world.item("floatingips");
  assert.deepEqual({ port_id, tags }, { port_id: null, tags: floatingIP("pinned", PINNED).tags });
});

Deno.test("cleanup() does not take a pod for lost whose node has been NotReady for a moment only", async () => {
  await using world = startWorld();
  await world.run();
  world.nodes = [node("node-1", { notReadyMs: 1_000 })];
  world.remove();
  assert.equal((await cleanup(world.context())).kind, "waiting");
  assert.equal(world.item("ports", ({ id }) => id !== "R-port").device_id, "A");
});

Deno.test("cleanup() leaves a foreign Deployment of the gateway's name", async () => {
  await using world = startWorld();
  const labels = { app: "shop" };
  world.write(DEPLOYMENTS, {
    metadata: { name: "gw", labels },
    spec: { selector: { matchLabels: labels }, template: {} },
  });
  world.put(gateway({}, { metadata: { finalizers: [CLEANUP_FINALIZER] } }));
  world.remove();
  assert.deepEqual(await cleanup(world.context()), { kind: "gone" });
  assert.ok(world.read(DEPLOYMENTS, "gw"));
});
