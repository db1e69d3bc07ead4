// Our Kubernetes client against the real API server of the lab (`./run lab up k8s`), in a namespace of its own.
import assert from "node:assert/strict";
import "../src/kube/worker_threads_shim.ts";
import { CoreV1Api } from "@kubernetes/client-node";
import {
  type Applied,
  applyIfChanged,
  type ApplyIfChangedOptions,
  ForeignObjectError,
} from "../src/kube/apply.ts";
import { createKubeClient } from "../src/kube/client.ts";
import { findConnection } from "../src/kube/connect.ts";
import { isConflict, KubeError } from "../src/kube/errors.ts";
import { createEventRecorder } from "../src/kube/events.ts";
import { inClusterConnection } from "../src/kube/in_cluster.ts";
import * as kinds from "../src/kube/kinds.ts";
import { CONFIG_MAPS, EVENTS, LEASES, NODES } from "../src/kube/kinds.ts";
import { clientNode } from "../src/kube/kubeconfig.ts";
import { runElection } from "../src/kube/lease.ts";
import { apply, create, get, list, remove } from "../src/kube/objects.ts";
import { type KubeObject, namespaced, type Resource } from "../src/kube/resource.ts";
import { eventually } from "../src/process/eventually.ts";
import { CLUSTER_SECONDS, map, world } from "./kube_place.ts";
import { compile, findCompiler } from "./lab/compile.ts";
import { KUBECONFIG } from "./lab/operator.ts";

Deno.test("apply() owns what it names, conflicts with others, takes over with force, and removes what it no longer names", async () => {
  await using at = await world();
  const { client, namespace } = at;
  const one = (data: Record<string, string>, fieldManager: string, force = false) =>
    apply(client, CONFIG_MAPS, { object: map(namespace, "x", data), fieldManager, force });
  await one({ a: "1", b: "1" }, "first");
  await one({ c: "1" }, "second");
  const conflict = await one({ a: "2" }, "second").catch((error: unknown) => error);
  assert(conflict instanceof KubeError && isConflict(conflict));
  assert.match(conflict.message, /conflict with "first"/);
  assert.deepEqual(conflict.details?.causes?.map(({ field }) => field), [".data.a"]);
  assert.deepEqual((await one({ a: "2" }, "second", true)).data, { a: "2", b: "1" });
  assert.deepEqual((await one({}, "first")).data, { a: "2" });
});

Deno.test("KubeError says what the API server says", async () => {
  await using at = await world();
  const { client, namespace } = at;
  const invalid = await create(client, CONFIG_MAPS, { object: map(namespace, "Not_A_Name", {}) })
    .catch((error: unknown) => error);
  assert(invalid instanceof KubeError);
  assert.deepEqual([invalid.code, invalid.reason], [422, "Invalid"]);
  assert.equal(invalid.details?.causes?.[0]?.field, "metadata.name");
  const none = namespaced<KubeObject>("none.example.net/v1", "nones", "None");
  assert.equal(await get(client, none, { namespace, name: "x" }), undefined);
});

Deno.test("applyIfChanged() writes each kind of a gateway once, and refuses a foreign one", async () => {
  await using at = await world();
  const { client, namespace } = at;
  const metadata = { namespace, name: "gw", labels: { app: "gw" } };
  const wanted = {
    configMap: { metadata, data: { "swanctl.conf": "connections {\n}\n" } },
    service: {
      metadata,
      spec: { selector: { app: "gw" }, ports: [{ name: "x", port: 80, targetPort: 8080 }] },
    },
    account: { metadata },
    role: {
      metadata,
      rules: [{ apiGroups: [""], resources: ["pods"], resourceNames: ["x"], verbs: ["get"] }],
    },
    binding: {
      metadata,
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "gw" },
      subjects: [{ kind: "ServiceAccount", name: "gw", namespace }],
    },
    policy: {
      metadata,
      spec: {
        podSelector: { matchLabels: { app: "gw" } },
        policyTypes: ["Ingress"],
        ingress: [{ ports: [{ port: 9903, protocol: "TCP" }] }],
      },
    },
    deployment: {
      metadata,
      spec: {
        replicas: 0,
        strategy: { type: "Recreate" },
        selector: { matchLabels: { app: "gw" } },
        template: {
          metadata: { labels: { app: "gw" } },
          spec: {
            containers: [{
              name: "a",
              image: "localhost/none:dev",
              resources: { requests: { cpu: "10m" } },
              ports: [{ name: "metrics", containerPort: 9903 }],
            }],
          },
        },
      },
    },
  };
  const digestAnnotation = "example.net/digest";
  const ensure = <T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    more: Partial<ApplyIfChangedOptions<T>> = {},
  ) =>
    applyIfChanged(client, resource, {
      object,
      fieldManager: "op",
      isOurs: () => true,
      digestAnnotation,
      ...more,
    });
  const all = async (): Promise<Applied<KubeObject>[]> => [
    await ensure(CONFIG_MAPS, wanted.configMap),
    await ensure(kinds.SERVICES, wanted.service),
    await ensure(kinds.SERVICE_ACCOUNTS, wanted.account),
    await ensure(kinds.ROLES, wanted.role),
    await ensure(kinds.ROLE_BINDINGS, wanted.binding),
    await ensure(kinds.NETWORK_POLICIES, wanted.policy),
    await ensure(kinds.DEPLOYMENTS, wanted.deployment),
  ];
  for (const { action, object } of await all()) assert.equal(action, "created", `${object.kind}`);
  for (const { action, object } of await all()) assert.equal(action, "unchanged", `${object.kind}`);
  wanted.configMap.data = { "swanctl.conf": "" };
  assert.equal((await all())[0]?.action, "updated");
  await assert.rejects(ensure(CONFIG_MAPS, wanted.configMap, { isOurs: () => false }), (error) => {
    assert(error instanceof ForeignObjectError);
    assert.match(error.message, /Cannot apply ConfigMap "kube-test-\w+\/gw": .* belongs to op/);
    return true;
  });
  // An object that was replaced meanwhile is not the one that was looked at.
  const live = (await ensure(CONFIG_MAPS, wanted.configMap)).object;
  await remove(client, CONFIG_MAPS, { namespace, name: "gw", uid: live.metadata?.uid });
  const created = await ensure(CONFIG_MAPS, { ...wanted.configMap, data: { more: "1" } }, { live });
  assert.equal(created.action, "created");
  await remove(client, CONFIG_MAPS, { namespace, name: "gw", uid: created.object.metadata?.uid });
  await create(client, CONFIG_MAPS, { object: map(namespace, "gw", { theirs: "1" }) });
  const isOurs = ({ metadata }: KubeObject) => metadata?.labels?.app === "gw";
  await assert.rejects(
    ensure(CONFIG_MAPS, wanted.configMap, { live: created.object, isOurs }),
    ForeignObjectError,
  );
  assert.deepEqual((await get(client, CONFIG_MAPS, { namespace, name: "gw" }))?.data, { theirs: "1" });
});

Deno.test("runElection() hands leadership over between two electors", async () => {
  await using at = await world();
  const { client, namespace } = at;
  const leading: string[] = [];
  const elect = (identity: string) => {
    const controller = new AbortController();
    const result = runElection(client, {
      namespace,
      name: "lock",
      identity,
      signal: controller.signal,
      retryMs: 200,
      lead: async (signal) => {
        leading.push(`+${identity}`);
        if (!signal.aborted) {
          await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        }
        leading.push(`-${identity}`);
      },
    });
    return { controller, result };
  };
  const a = elect("a");
  await eventually("a leads", () => leading.includes("+a"), CLUSTER_SECONDS);
  const b = elect("b");
  a.controller.abort();
  assert.equal(await a.result, "released");
  await eventually("b leads", () => leading.includes("+b"), CLUSTER_SECONDS);
  const lease = await get(client, LEASES, { namespace, name: "lock" });
  assert.deepEqual([lease?.spec?.holderIdentity, lease?.spec?.leaseDurationSeconds], ["b", 15]);
  b.controller.abort();
  assert.equal(await b.result, "released");
  assert.deepEqual(leading, ["+a", "-a", "+b", "-b"]);
});

Deno.test("createEventRecorder() writes what the API server accepts, counted", async () => {
  await using at = await world();
  const { client, namespace } = at;
  const subject = await create(client, CONFIG_MAPS, { object: map(namespace, "subject", {}) });
  {
    await using recorder = createEventRecorder(client, {
      controller: "ipsec.bnerd.net/operator",
      instance: "test",
      intervalMs: 100,
    });
    for (let n = 0; n < 3; n++) {
      recorder.event(subject, { type: "Warning", reason: "NoNode", note: "no Ready node" });
    }
    await eventually("the series", async () => {
      const { items } = await list(client, EVENTS, { namespace });
      const ours = items.filter(({ reason }) => reason === "NoNode");
      return ours.length === 1 && ours[0]?.series?.count === 3 &&
        ours[0].regarding.uid === subject.metadata?.uid;
    }, CLUSTER_SECONDS);
  }
});

Deno.test("inClusterConnection() works with a real ServiceAccount, and over the rotation of its token", async () => {
  await using at = await world();
  const { client, namespace } = at;
  await create(client, kinds.SERVICE_ACCOUNTS, { object: { metadata: { namespace, name: "agent" } } });
  const token = async () => {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/agent/token`;
    const body = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: 600 },
    };
    return (await client.request<{ status: { token: string } }>({ method: "POST", path, body })).status.token;
  };
  const directory = await Deno.makeTempDir();
  try {
    const { tls } = await at.connection.credentials();
    await Deno.writeTextFile(`${directory}/ca.crt`, tls.caCerts?.[0] ?? "");
    await Deno.writeTextFile(`${directory}/namespace`, namespace);
    await Deno.writeTextFile(`${directory}/token`, "expired");
    const { hostname, port } = new URL(at.connection.server);
    const env = (name: string) => name.endsWith("HOST") ? hostname : port;
    using pod = createKubeClient(await inClusterConnection({ directory, env }));
    // The connection holds a token that is refused; the file has a good one by now.
    await Deno.writeTextFile(`${directory}/token`, await token());
    const refused = await get(pod, CONFIG_MAPS, { namespace, name: "x" }).catch((error: unknown) => error);
    assert(refused instanceof KubeError);
    assert.deepEqual([refused.code, refused.reason], [403, "Forbidden"]);
    assert.match(refused.message, /system:serviceaccount:kube-test-\w+:agent/);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("clientNode() carries client-node's typed API to the real server", async () => {
  await using at = await world();
  using node = clientNode(at.connection);
  const core = new CoreV1Api(node.configuration);
  const body = { metadata: { name: "typed" }, data: { k: "v" } };
  await core.createNamespacedConfigMap({ namespace: at.namespace, body });
  const read = await core.readNamespacedConfigMap({ namespace: at.namespace, name: "typed" });
  assert.equal(read.data?.k, "v");
  assert(read.metadata?.creationTimestamp instanceof Date);
  await assert.rejects(core.readNamespacedConfigMap({ namespace: at.namespace, name: "none" }), {
    code: 404,
  });
});

Deno.test("a compiled executable loads client-node and reaches the API server with a kubeconfig", async () => {
  const connection = await findConnection({ kubeconfig: KUBECONFIG });
  using client = createKubeClient(connection);
  const nodes = (await list(client, NODES)).items.map((node) => node.metadata?.name);
  const directory = await Deno.makeTempDir();
  try {
    const out = `${directory}/smoke`;
    const flags = ["--allow-net", "--allow-read", "--allow-env", "--allow-sys"];
    await compile({ out, entry: "tests/kube_smoke.ts", flags }, await findCompiler());
    const { stdout, stderr, success } = await new Deno.Command(out, { args: [KUBECONFIG], cwd: directory })
      .output();
    assert(success, new TextDecoder().decode(stderr));
    const said = JSON.parse(new TextDecoder().decode(stdout));
    assert.deepEqual([said.ours, said.typed], [nodes, nodes]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
