// What people get wrong: refused at apply with the field's name, or told by a condition that names the object and says
// what to do. Through the compiled controller as the chart installs it.
import assert from "node:assert/strict";
import { BAD_SPECS } from "./lab/bad_specs.ts";
import { UNKNOWN_ID, unusable } from "./lab/bad_references.ts";
import { connectAs } from "./lab/cloud.ts";
import { CACHE, until } from "./lab/command.ts";
import { gatewayAt, nudge, plainGateway, stopsAt } from "./lab/gateways.ts";
import { apply, cloudsYaml, installOperator, tenant, tryKubectl } from "./lab/operator.ts";
import { PARTNER_ADDRESS } from "./lab/partner.ts";
import { PROXY_AUTH_URL } from "./lab/proxy.ts";
import { NO_NODE } from "./lab/step_faults.ts";

Deno.test.beforeAll(() => installOperator());

const NETWORK = "11111111-1111-4111-8111-111111111111";

const tunnel = { name: "berlin", peer: { address: PARTNER_ADDRESS }, remoteSubnets: ["192.168.77.0/24"] };

Deno.test("an object that is invalid is refused at apply, and the refusal names the field", async (t) => {
  await using own = await tenant();
  const { namespace } = own;
  const objects = BAD_SPECS.map(({ spec, metadata }, index) => {
    const object = plainGateway({ namespace, name: `bad-${index}` }, spec) as { metadata: object };
    return { ...object, metadata: { ...object.metadata, ...metadata } };
  });
  // One at a time: which refusal is whose is not always said.
  const refusals = await Promise.all(objects.map((object) => {
    const input = JSON.stringify(object);
    return limited(() => tryKubectl(["apply", "-f", "-"], { input, timeoutMs: 120_000 }));
  }));
  for (const [index, { what, says }] of BAD_SPECS.entries()) {
    await t.step(what, () => {
      assert.notEqual(refusals[index]?.code, 0);
      assert.match(refusals[index]?.stderr ?? "", says);
    });
  }
  assert.equal(await own.kubectl(["get", "ipsecgateway", "-o", "name"]), "");
});

/** Four at the same time. */
const limited = (() => {
  const free = Array.from({ length: 4 }, () => Promise.resolve() as Promise<unknown>);
  let turn = 0;
  return <T>(work: () => Promise<T>): Promise<T> => {
    const at = turn++ % free.length;
    const done = (free[at] ?? Promise.resolve()).then(work);
    free[at] = done.catch(() => {});
    return done;
  };
})();

Deno.test("what partners and ports rest on cannot be changed, and the refusal names the field", async (t) => {
  await using own = await tenant();
  const place = { namespace: own.namespace, name: "gw" };
  await apply([
    plainGateway(place, {
      psk: { secretName: "none" },
      serviceCIDR: "100.64.214.0/24",
      openstack: { networkID: NETWORK, subnetID: NETWORK },
    }),
    plainGateway({ ...place, name: "bare" }, { psk: { secretName: "none" } }),
  ]);
  const changes: readonly (readonly [string, string, unknown, RegExp])[] = [
    [
      "gw",
      "another service CIDR",
      { serviceCIDR: "100.64.215.0/24" },
      /spec\.serviceCIDR: .*serviceCIDR is immutable/,
    ],
    ["gw", "no service CIDR", { serviceCIDR: null }, /serviceCIDR is immutable/],
    ["bare", "a service CIDR later", { serviceCIDR: "100.64.215.0/24" }, /serviceCIDR is immutable/],
    [
      "gw",
      "another network",
      { openstack: { networkID: UNKNOWN_ID } },
      /spec\.openstack\.networkID: .*networkID is immutable/,
    ],
    ["gw", "no network", { openstack: null }, /openstack\.networkID is immutable/],
    [
      "gw",
      "another subnet",
      { openstack: { subnetID: UNKNOWN_ID } },
      /spec\.openstack\.subnetID: .*subnetID is immutable/,
    ],
  ];
  for (const [name, what, spec, says] of changes) {
    await t.step(what, async () => {
      const patch = JSON.stringify({ spec });
      const refused = await tryKubectl(
        ["-n", own.namespace, "patch", "ipsecgateway", name, "--type=merge", "-p", patch],
      );
      assert.notEqual(refused.code, 0);
      assert.match(refused.stderr, says);
    });
  }
});

Deno.test("what cannot be used is named by a condition that says what to do, and no secret with it", async (t) => {
  await using own = await tenant();
  const { namespace } = own;
  const password = `wrong-${crypto.randomUUID()}`;
  const cloud = JSON.parse(cloudsYaml()).clouds.lab;
  const secret = (name: string, stringData: Record<string, string>) => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace },
    stringData,
  });
  const clouds = (name: string, text: string) => secret(name, { "clouds.yaml": text });
  await apply([
    secret("bad", { empty: "", newline: "\n" }),
    clouds("good", cloudsYaml()),
    clouds("garbled", `clouds:\n  lab: {auth: {password: "${password}\n`),
    clouds("bare", JSON.stringify({ clouds: { lab: { region_name: "RegionOne" } } })),
    clouds("two", JSON.stringify({ clouds: { east: cloud, west: cloud } })),
    clouds("wrong", cloudsYaml(PROXY_AUTH_URL, password)),
    clouds("dead", cloudsYaml("http://172.30.0.1:9/v3", password)),
  ]);
  const cases = Object.entries(unusable(namespace));
  await apply(cases.map(([name, { spec }]) => plainGateway({ namespace, name }, spec)));
  for (const [name, { condition = "Validated", reason, says }] of cases) {
    await t.step(name, async () => void await stopsAt({ namespace, name }, { condition, reason, says }));
  }
  await t.step("no password and no key is in any object or Event", async () => {
    const seen = await own.kubectl(["get", "ipsecgateways,events,configmaps", "-o", "yaml"]);
    for (const hidden of [password, own.key, "tenantpw"]) assert.ok(!seen.includes(hidden));
    assert.match(seen, /reason: CloudCredentialsInvalid/);
  });
  await t.step("a Secret that is made later is found without an edit of the gateway", async () => {
    const place = { namespace, name: "no-secret" };
    await own.kubectl([
      "patch",
      "ipsecgateway",
      place.name,
      "--type=merge",
      "-p",
      JSON.stringify({ spec: NO_NODE }),
    ]);
    await apply([secret("nowhere", { psk: own.key })]);
    await stopsAt(place, { condition: "PortAttached", reason: "NoReadyNode", says: [/tests\/none=here/] });
  });
  await t.step("every one of them can be deleted", async () => {
    await own.kubectl(["delete", "ipsecgateway", "--all", "--timeout=150s"], { timeoutMs: 160_000 });
  });
});

Deno.test("a peer whose name does not resolve is told; when it does, the tunnel comes up", async () => {
  await using own = await tenant();
  const place = { namespace: own.namespace, name: "gw" };
  const host = `${own.namespace}.example.test`;
  const hosts = `${CACHE}/k8s/run/dns/${own.namespace}`;
  await using made = new AsyncDisposableStack();
  made.defer(() => Deno.remove(hosts).catch(() => {}));
  const spec = {
    tunnels: [{
      ...tunnel,
      peer: { address: host, id: PARTNER_ADDRESS },
      ike: { proposals: ["aes256gcm16-prfsha256-ecp256"] },
      esp: { proposals: ["aes256gcm16"] },
    }],
  };
  await own.applyGateway({ ...spec, exposures: undefined, reverseExposures: undefined });
  await stopsAt(place, {
    condition: "Validated",
    reason: "PeerUnresolvable",
    says: [new RegExp(`Tunnel berlin: peer\\.address ${host} does not resolve`)],
  });
  await Deno.writeTextFile(hosts, `${PARTNER_ADDRESS} ${host}\n`);
  // Its own timer asks the resolver again.
  await own.condition("Validated", "True", { timeoutMs: 120_000 });
  await own.condition("DeploymentReady", "True", { timeoutMs: 180_000 });
  await own.loadPartner();
  await until("the tunnel is ESTABLISHED", async () => (await own.tunnelState()) === "ESTABLISHED", {
    timeoutMs: 120_000,
    intervalMs: 250,
  });
  const cloud = await connectAs("tenant");
  const group = await cloud.get("security-groups", (await gatewayAt(place)).status?.securityGroupID ?? "");
  const sources = group.security_group_rules.filter((rule) => rule.direction === "ingress").map((rule) =>
    rule.remote_ip_prefix
  );
  assert.deepEqual([...new Set(sources)], [`${PARTNER_ADDRESS}/32`]);
});

Deno.test("objects of others that have our names are named and left alone", async (t) => {
  await using own = await tenant();
  const { namespace } = own;
  const place = { namespace, name: "gw" };
  const labels = { app: "theirs" };
  const container = { name: "c", image: "none" };
  const foreign = [
    {
      kind: "ConfigMap",
      name: "gw-swanctl",
      body: { apiVersion: "v1", data: { "swanctl.conf": "theirs" } },
      condition: "ConfigRendered",
      reason: "RenderFailed",
    },
    {
      kind: "ConfigMap",
      name: "gw-nat",
      body: { apiVersion: "v1", data: { "nat.rules": "theirs" } },
      condition: "ConfigRendered",
      reason: "RenderFailed",
    },
    {
      kind: "ServiceAccount",
      name: "gw-ipsec-gateway",
      body: { apiVersion: "v1" },
      condition: "DeploymentReady",
      reason: "DeploymentUnavailable",
    },
    {
      kind: "Service",
      name: "gw-api",
      body: { apiVersion: "v1", spec: { ports: [{ port: 80 }] } },
      condition: "DeploymentReady",
      reason: "DeploymentUnavailable",
    },
    {
      kind: "Deployment",
      name: "gw",
      body: {
        apiVersion: "apps/v1",
        spec: {
          replicas: 0,
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers: [container] } },
        },
      },
      condition: "DeploymentReady",
      reason: "DeploymentUnavailable",
    },
  ] as const;
  await apply(foreign.map(({ kind, name, body }) => ({ ...body, kind, metadata: { name, namespace } })));
  const generation = (kind: string, name: string) =>
    own.kubectl([
      "get",
      kind,
      name,
      "-o",
      "jsonpath={.metadata.uid} {.metadata.generation} {.data} {.metadata.ownerReferences}",
    ]);
  const before = new Map<string, string>();
  for (const { kind, name } of foreign) before.set(`${kind}/${name}`, await generation(kind, name));
  await apply([
    plainGateway(place, {
      reverseExposures: [{ name: "api", port: 80, remoteAddress: "192.168.77.10", remotePort: 80 }],
    }),
  ]);
  for (const { kind, name, condition, reason } of foreign) {
    await t.step(`${kind} ${name}`, async () => {
      await stopsAt(place, {
        condition,
        reason,
        says: [new RegExp(`${kind} "${namespace}/${name}"`), /rename or remove it/],
      });
      assert.equal(await generation(kind, name), before.get(`${kind}/${name}`));
    });
    if (kind === "Deployment") break;
    await own.kubectl(["delete", kind, name]);
    await nudge(place);
  }
  await t.step("a gateway that is deleted leaves them where they are", async () => {
    await own.kubectl(["delete", "ipsecgateway", "gw", "--timeout=120s"], { timeoutMs: 130_000 });
    assert.equal(await generation("Deployment", "gw"), before.get("Deployment/gw"));
  });
});
