// A fault at each step of a gateway: the conditions before it are True, that one is False and says what to do, those after
// it are absent; with the fault gone it goes on. Through the compiled controller as the chart installs it.
import assert from "node:assert/strict";
import { connectAs } from "./lab/cloud.ts";
import {
  conditionsAt,
  gatewayAt,
  nudge,
  ownedCounts,
  plainGateway,
  type Stop,
  stopsAt,
} from "./lab/gateways.ts";
import { apply, cloudsYaml, installOperator, tenant } from "./lab/operator.ts";
import { clearRules, withFault } from "./lab/proxy.ts";
import { stages } from "./lab/fault_stages.ts";
import { CONTESTED, NO_NODE } from "./lab/step_faults.ts";

Deno.test.beforeAll(() => installOperator());

/** A clouds.yaml of the tenant whose sign-ins KEYSTONE matches. */
function ownCloud(): string {
  const clouds = JSON.parse(cloudsYaml());
  const { auth } = clouds.clouds.lab;
  delete auth.user_domain_name;
  auth.user_domain_id = "default";
  return JSON.stringify(clouds);
}

Deno.test("a fault at each step stops a gateway there, says what to do, and lets it go on when it is gone", async (t) => {
  const cloud = await connectAs("tenant");
  await using own = await tenant();
  const place = { namespace: own.namespace, name: "gw" };
  const all = stages(own);
  await using made = new AsyncDisposableStack();
  made.defer(() => clearRules());
  await apply([{
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "cloud", namespace: own.namespace },
    stringData: { "clouds.yaml": ownCloud() },
  }]);
  await all[0]?.fault.make(own);
  await apply([plainGateway(place, {
    openstack: { cloudSecretRef: { name: "cloud" } },
    mode: "routed",
    serviceCIDR: CONTESTED,
    tunnels: [{
      name: "berlin",
      peer: { address: "203.0.113.250" },
      localSubnets: ["172.20.55.0/24"],
      remoteSubnets: ["192.168.77.0/24"],
    }],
  })]);
  for (const [index, stage] of all.entries()) {
    const passed = await t.step(stage.name, async () => {
      const message = await stopsAt(place, stage);
      await stage.fault.met(own, message);
    });
    // What comes next is there before this goes, so that the gateway cannot run past it.
    const next = all[index + 1]?.fault;
    if (next) {
      made.defer(() => next.lift(own).catch(() => {}));
      await next.make(own);
    }
    await stage.fault.lift(own);
    if (!stage.byItself) await nudge(place);
    if (!passed) return;
  }
  await t.step("with the last fault gone it is whole, and nothing was made twice", async () => {
    await own.condition("DeploymentReady", "True", { timeoutMs: 180_000 });
    const statuses = Object.values(await conditionsAt(place)).map(({ status }) => status);
    assert.deepEqual(statuses, Array(8).fill("True"));
    assert.deepEqual(await ownedCounts(cloud, await gatewayAt(place)), { groups: 1, ports: 1, addresses: 1 });
  });
  await t.step("deleted, it leaves nothing, the router's routes included", async () => {
    const gateway = await gatewayAt(place);
    const nexthop = gateway.status?.port?.fixedIP;
    const routes = async () =>
      (await cloud.list("routers")).flatMap((router) => router.routes).filter((one) =>
        one.nexthop === nexthop
      );
    assert.deepEqual(await routes(), [{ destination: "192.168.77.0/24", nexthop }]);
    await own.kubectl(["delete", "ipsecgateway", "gw", "--timeout=120s"], { timeoutMs: 130_000 });
    assert.deepEqual(await ownedCounts(cloud, gateway), { groups: 0, ports: 0, addresses: 0 });
    assert.deepEqual(await routes(), []);
  });
});

Deno.test("answers that get lost after the work was done double nothing", async () => {
  const cloud = await connectAs("tenant");
  await using own = await tenant();
  const place = { namespace: own.namespace, name: "gw" };
  const lost = (id: string, method: string, path: string, body?: string) => ({
    id,
    match: { method, path, ...(body === undefined ? {} : { body }) },
    times: 1,
    action: { kind: "cut-after" as const },
  });
  await withFault([
    lost("group", "POST", "^/network/v2.0/security-groups$", own.namespace),
    lost("rule", "POST", "^/network/v2.0/security-group-rules$"),
    lost("port", "POST", "^/network/v2.0/ports$", own.namespace),
    lost("attach", "POST", "/os-interface$"),
    lost("address", "POST", "^/network/v2.0/floatingips$", own.namespace),
  ], async () => {
    // An exposure of a Service that is not there ends it before a pod starts.
    const exposures = [{ name: "web", port: 80, target: { service: { name: "none", port: 80 } } }];
    await apply([plainGateway(place, { exposures })]);
    await stopsAt(place, {
      condition: "ConfigRendered",
      reason: "RenderFailed",
      says: [new RegExp(`Service ${own.namespace}/none \\(exposure web\\) does not exist: create it`)],
    });
  });
  const gateway = await gatewayAt(place);
  assert.deepEqual(await ownedCounts(cloud, gateway), { groups: 1, ports: 1, addresses: 1 });
  const [group] = await cloud.list("security-groups", { id: gateway.status?.securityGroupID ?? "" });
  const ingress = group?.security_group_rules.filter((rule) => rule.direction === "ingress").map((rule) => [
    rule.port_range_min,
    rule.remote_ip_prefix,
  ]).sort();
  assert.deepEqual(ingress, [[4500, "203.0.113.250/32"], [500, "203.0.113.250/32"]]);
});

Deno.test("a pool of a single /24 goes to one gateway, and to the next when that one is gone", async () => {
  await using restored = new AsyncDisposableStack();
  restored.defer(() => installOperator());
  await installOperator({ serviceCIDRPool: ["100.66.7.0/24"] });
  await using own = await tenant();
  const first = { namespace: own.namespace, name: "first" };
  const second = { namespace: own.namespace, name: "second" };
  const noNode: Stop = {
    condition: "PortAttached",
    reason: "NoReadyNode",
    says: [/has the labels tests\/none=here/],
  };
  await apply([plainGateway(first, NO_NODE)]);
  await stopsAt(first, noNode);
  await apply([plainGateway(second, NO_NODE)]);
  await stopsAt(second, {
    condition: "Allocated",
    reason: "AllocationFailed",
    says: [
      new RegExp(`IPsecGateway ${own.namespace}/second`),
      /all 1 \/24s of the service CIDR pool 100\.66\.7\.0\/24 are taken: widen serviceCIDRPool or delete a gateway/,
    ],
  });
  await own.kubectl(["delete", "ipsecgateway", "first", "--timeout=60s"], { timeoutMs: 70_000 });
  await nudge(second);
  await stopsAt(second, noNode);
  assert.equal((await gatewayAt(second)).status?.serviceCIDR, "100.66.7.0/24");
});
