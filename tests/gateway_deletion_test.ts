// What is left when a gateway is deleted: nothing of its own, everything of others, whatever goes wrong on the way.
import assert from "node:assert/strict";
import type { IPsecGateway } from "../src/api/ipsec_gateway.ts";
import { type Cloud, connectAs, type FloatingIP } from "./lab/cloud.ts";
import { until } from "./lab/command.ts";
import {
  apply,
  cloudsYaml,
  getJson,
  installOperator,
  kubectl,
  type Tenant,
  tenant,
  tryKubectl,
} from "./lab/operator.ts";
import { clearRules, PROXY_AUTH_URL, withFault } from "./lab/proxy.ts";

let cloud: Cloud;

Deno.test.beforeAll(async () => {
  await clearRules();
  await installOperator();
  cloud = await connectAs("tenant");
});

/** The kinds that the controller makes for a gateway, Pods too. */
const KINDS = "deploy,rs,cm,svc,sa,role,rolebinding,netpol,net-attach-def,pod";

/** What there is of a gateway in the cloud, by name; interfaces are those of any server that have its ports. */
interface Traces {
  readonly groups: readonly string[];
  readonly ports: readonly string[];
  readonly addresses: readonly string[];
  readonly interfaces: readonly string[];
}

const NONE: Traces = { groups: [], ports: [], addresses: [], interfaces: [] };

/** Looks by tag, by name and by description, so that what has lost its tag is found too; `ports` are asked Nova for. */
async function traces(
  { metadata }: IPsecGateway,
  known: { ports?: readonly string[] } = {},
): Promise<Traces> {
  const name = `${metadata.namespace}/${metadata.name}`;
  const called = `${metadata.namespace}-${metadata.name}`;
  const own = (item: { tags: readonly string[]; description: string; name?: string }) =>
    item.tags.some((tag) => tag.includes(metadata.uid ?? "")) ||
    `${item.description} `.includes(`${name} `) ||
    item.name?.endsWith(called);
  const ids = (items: readonly { id: string }[]) => items.map(({ id }) => id).sort();
  const ports = ids((await cloud.list("ports")).filter(own));
  const wanted = new Set([...ports, ...known.ports ?? []]);
  const interfaces: string[] = [];
  for (const { id } of await cloud.servers()) {
    const { interfaceAttachments } = await cloud.call<{ interfaceAttachments: { port_id: string }[] }>(
      "compute",
      "GET",
      `/servers/${id}/os-interface`,
    );
    for (const { port_id } of interfaceAttachments) {
      if (wanted.has(port_id)) interfaces.push(`${id} ${port_id}`);
    }
  }
  return {
    groups: ids((await cloud.list("security-groups")).filter(own)),
    ports,
    addresses: ids((await cloud.list("floatingips")).filter(own)),
    interfaces: interfaces.sort(),
  };
}

/** Waits until nothing of the gateway is left in Kubernetes; its namespace stays. */
async function assertGoneFromKubernetes(own: Tenant): Promise<void> {
  await until("the garbage collector is through", async () => {
    const { items } = await getJson<{ items: unknown[] }>([
      "-n",
      own.namespace,
      KINDS,
      "-l",
      "ipsec.bnerd.net/gateway=gw",
    ]);
    return items.length === 0;
  }, { timeoutMs: 30_000 });
  const { code } = await tryKubectl(["-n", own.namespace, "get", "ipsecgateway", "gw"]);
  assert.equal(code, 1);
}

async function putCloudSecret(own: Tenant, text: string): Promise<void> {
  await apply([{
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "cloud", namespace: own.namespace },
    stringData: { "clouds.yaml": text },
  }]);
}

const OWN_CLOUD = { openstack: { cloudSecretRef: { name: "cloud" } } };

/** A floating IP of the customer's, with a tag and a description of theirs; disposing deletes it. */
async function customersAddress(): Promise<FloatingIP & AsyncDisposable> {
  const external = (await cloud.list("networks")).find((network) => network["router:external"]);
  const made = await cloud.create("floatingips", {
    floating_network_id: external?.id,
    description: "the partner has this address in its firewall",
  });
  await cloud.call("network", "PUT", `/floatingips/${made.id}/tags`, { tags: ["customer=42", "keep"] });
  return Object.assign(await cloud.get("floatingips", made.id), {
    [Symbol.asyncDispose]: () => cloud.remove("floatingips", made.id),
  });
}

Deno.test("a deleted gateway leaves nothing; an address that it had pinned is free again, with its own tags", async () => {
  await using address = await customersAddress();
  await using own = await tenant();
  await putCloudSecret(own, cloudsYaml());
  await own.establish({ ...OWN_CLOUD, endpoint: { floatingIP: address.floating_ip_address } });
  const gateway = await own.gateway();
  const before = await traces(gateway);
  assert.deepEqual(
    [before.groups.length, before.ports.length, before.interfaces.length],
    [1, 1, 1],
    JSON.stringify(before),
  );
  const pinned = await cloud.get("floatingips", address.id);
  assert.equal(pinned.port_id, before.ports[0]);
  assert.deepEqual([...pinned.tags].sort(), [
    "customer=42",
    `ipsec.bnerd.net/pinned-by=${gateway.metadata.uid}`,
    "keep",
  ]);

  await own.kubectl(["delete", "ipsecgateway", "gw", "--timeout=90s"], { timeoutMs: 100_000 });
  assert.deepEqual(await traces(gateway, before), NONE);
  await assertGoneFromKubernetes(own);
  const { port_id, tags, description, floating_ip_address } = await cloud.get("floatingips", address.id);
  assert.deepEqual({ port_id, tags: [...tags].sort(), description, floating_ip_address }, {
    port_id: null,
    tags: ["customer=42", "keep"],
    description: "the partner has this address in its firewall",
    floating_ip_address: address.floating_ip_address,
  });
  const secret = await getJson<{ metadata: { finalizers?: string[] } }>([
    "-n",
    own.namespace,
    "secret",
    "cloud",
  ]);
  assert.deepEqual(secret.metadata.finalizers ?? [], [], "the guard is off the cloud Secret");
});

Deno.test("a namespace with four gateways and their cloud Secret can be deleted as a whole", async () => {
  await using own = await tenant();
  await putCloudSecret(own, cloudsYaml());
  await own.applyGateway(OWN_CLOUD);
  const { spec } = await own.gateway();
  const names = ["gw", "second", "third", "fourth"];
  await apply(
    names.slice(1).map((name) => ({
      apiVersion: "ipsec.bnerd.net/v1alpha1",
      kind: "IPsecGateway",
      metadata: { name, namespace: own.namespace },
      spec,
    })),
  );
  const all = async () => {
    const { items } = await getJson<{ items: IPsecGateway[] }>(["-n", own.namespace, "ipsecgateway"]);
    return items;
  };
  const gateways = await until("all four have what they need in the cloud", async () => {
    const items = await all();
    return items.every(({ status }) => status?.floatingIP && status.nodeName) ? items : undefined;
  }, { timeoutMs: 120_000, intervalMs: 500 });
  assert.equal(gateways.length, names.length);
  const before = await Promise.all(gateways.map((gateway) => traces(gateway)));
  for (const { addresses, interfaces } of before) {
    assert.deepEqual([addresses.length, interfaces.length], [1, 1]);
  }
  const secret = await getJson<{ metadata: { finalizers?: string[] } }>([
    "-n",
    own.namespace,
    "secret",
    "cloud",
  ]);
  assert.equal(secret.metadata.finalizers?.length, 1, "the guard is on the cloud Secret");

  await kubectl(["delete", "namespace", own.namespace, "--timeout=150s"], { timeoutMs: 160_000 });
  for (const [index, gateway] of gateways.entries()) {
    assert.deepEqual(await traces(gateway, before[index]), NONE, gateway.metadata.name ?? "");
  }
});

Deno.test("two gateways share a cloud Secret: the guard stays until the second is gone", async () => {
  await using own = await tenant();
  await putCloudSecret(own, cloudsYaml());
  await own.applyGateway(OWN_CLOUD);
  const { spec } = await own.gateway();
  const second = { name: "second", namespace: own.namespace };
  await apply([{ apiVersion: "ipsec.bnerd.net/v1alpha1", kind: "IPsecGateway", metadata: second, spec }]);
  await own.condition("PortReady", "True");
  await until("the second has a port too", async () => {
    const { status } = await getJson<IPsecGateway>(["-n", own.namespace, "ipsecgateway", "second"]);
    return status?.port?.id;
  }, { timeoutMs: 60_000, intervalMs: 250 });
  const gateways = [
    await own.gateway(),
    await getJson<IPsecGateway>(["-n", own.namespace, "ipsecgateway", "second"]),
  ];

  await own.kubectl(["delete", "secret", "cloud", "--wait=false"]);
  await own.kubectl(["delete", "ipsecgateway", "gw", "--timeout=90s"], { timeoutMs: 100_000 });
  const { metadata } = await getJson<{ metadata: { finalizers?: string[] } }>([
    "-n",
    own.namespace,
    "secret",
    "cloud",
  ]);
  assert.equal(metadata.finalizers?.length, 1);
  await own.kubectl(["delete", "ipsecgateway", "second", "--timeout=90s"], { timeoutMs: 100_000 });
  await until("the Secret is gone", async () => {
    return (await tryKubectl(["-n", own.namespace, "get", "secret", "cloud"])).code === 1;
  });
  for (const gateway of gateways) assert.deepEqual(await traces(gateway), NONE);
});

Deno.test("a deletion that OpenStack fails says so in an Event, and ends once the fault is gone", async () => {
  await using own = await tenant();
  await own.applyGateway();
  await own.condition("DeploymentReady", "True", { timeoutMs: 120_000 });
  const gateway = await own.gateway();
  const before = await traces(gateway);
  await withFault({
    id: "broken",
    match: { method: "DELETE", path: "^/(network|compute)/" },
    action: { kind: "status", code: 503 },
  }, async (hits) => {
    await own.kubectl(["delete", "ipsecgateway", "gw", "--wait=false"]);
    const note = await until("an Event tells of it", async () => {
      const { items } = await getJson<{ items: { type: string; reason: string; message: string }[] }>([
        "-n",
        own.namespace,
        "events",
        "--field-selector=involvedObject.kind=IPsecGateway,involvedObject.name=gw,reason=CleanupFailed",
      ]);
      return items.find(({ type }) => type === "Warning")?.message;
    }, { timeoutMs: 60_000, intervalMs: 500 });
    assert.match(note, /503/);
    assert.ok(note.includes(own.namespace), note);
    assert.ok(await hits() > 0);
    const { metadata } = await own.gateway();
    assert.ok(metadata.finalizers?.includes("ipsec.bnerd.net/cleanup"));
  });
  await until("the gateway is gone", async () => {
    return (await tryKubectl(["-n", own.namespace, "get", "ipsecgateway", "gw"])).code === 1;
  }, { timeoutMs: 90_000, intervalMs: 500 });
  assert.deepEqual(await traces(gateway, before), NONE);
  await assertGoneFromKubernetes(own);
});

Deno.test("a gateway that never had credentials can be deleted", async (t) => {
  const texts: Record<string, string | undefined> = {
    "no Secret at all": undefined,
    "a clouds.yaml that is none": "clouds: [",
    "a password that Keystone refuses": cloudsYaml(PROXY_AUTH_URL, "not the password"),
  };
  for (const [what, text] of Object.entries(texts)) {
    await t.step(what, async () => {
      await using own = await tenant();
      if (text !== undefined) await putCloudSecret(own, text);
      await own.applyGateway(OWN_CLOUD);
      const reason = text === undefined ? "SecretNotFound" : "CloudCredentialsInvalid";
      await own.condition("Validated", "False", { reason });
      await own.kubectl(["delete", "ipsecgateway", "gw", "--timeout=30s"], { timeoutMs: 40_000 });
      await assertGoneFromKubernetes(own);
    });
  }
});
