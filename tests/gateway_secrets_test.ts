// Keys and credentials are nowhere but where they were put: searched for in every form and everywhere that somebody can
// read, after everything has gone wrong with them that can.
import assert from "node:assert/strict";
import type { Pod } from "kubernetes-types/core/v1";
import { createApplicationCredential } from "./lab/application_credential.ts";
import { CACHE, until } from "./lab/command.ts";
import { filesOf, logsOf, objectsOf, type Place, processesOf } from "./lab/exposed_places.ts";
import { containerLog, firstProcess, gatewayPod, podProcesses, restarts } from "./lab/gateway_pod.ts";
import { type Form, formsIn, formsOf } from "./lab/leak_search.ts";
import {
  apply,
  cloudsYaml,
  installOperator,
  KUBECONFIG,
  OPERATOR_NAMESPACE,
  type Tenant,
  tenant,
} from "./lab/operator.ts";
import { operatorPod } from "./lab/operator_pod.ts";
import { PROXY_AUTH_URL } from "./lab/proxy.ts";

/** Has characters that JSON, URLs and shells write in another way. */
const hardKey = () => `psk/ä+"&%$\\ ${crypto.randomUUID()}`;
const KEYS = { first: hardKey(), second: hardKey(), partners: hardKey() };
/** Put on purpose wherever is searched. */
const MARKER = `marker/ä+"&% ${crypto.randomUUID()}`;

/** clouds.yaml with an application credential of its own, by way of the fault proxy. */
async function credentials(): Promise<{ yaml: string; secret: string } & AsyncDisposable> {
  const secret = `app/+"& ${crypto.randomUUID()}`;
  const made = await createApplicationCredential("tenant", secret);
  const auth = {
    auth_url: PROXY_AUTH_URL,
    application_credential_id: made.id,
    application_credential_secret: secret,
  };
  const cloud = { auth_type: "v3applicationcredential", auth, region_name: "RegionOne" };
  return {
    yaml: JSON.stringify({ clouds: { lab: cloud } }, undefined, 2),
    secret,
    [Symbol.asyncDispose]: () => made[Symbol.asyncDispose](),
  };
}

async function putSecret(own: Tenant, name: string, stringData: Record<string, string>): Promise<void> {
  await apply([{
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace: own.namespace },
    stringData,
  }]);
}

/** Has the controller look again: it does not watch Secrets. */
async function look(own: Tenant): Promise<void> {
  await own.kubectl(["annotate", "--overwrite", "ipsecgateway", "gw", `look=${crypto.randomUUID()}`]);
}

/** Has everything happen in which a careless program would tell a key. */
async function live(own: Tenant, clouds: { yaml: string; secret: string }): Promise<Pod> {
  await putSecret(own, "keys", { psk: KEYS.first });
  await putSecret(own, "cloud", { "clouds.yaml": clouds.yaml });
  await own.applyGateway({ openstack: { cloudSecretRef: { name: "cloud" } } });
  await own.condition("DeploymentReady", "True", { timeoutMs: 120_000 });

  await own.loadPartner({ key: KEYS.partners });
  await until("the tunnel fails by the partner's other key", async () => {
    return (await own.gateway()).status?.tunnels?.some((tunnel) => tunnel.lastError);
  }, { timeoutMs: 60_000, intervalMs: 250 });
  await own.loadPartner({ key: KEYS.first });
  await established(own);

  const pod = await gatewayPod(own.namespace);
  const pushes = async () =>
    (await containerLog(pod, "status-agent")).match(/Pushed pre-shared keys/g)?.length ?? 0;
  const before = await pushes();
  await putSecret(own, "keys", { psk: KEYS.second });
  await until("the second key is pushed", async () => await pushes() > before, {
    timeoutMs: 90_000,
    intervalMs: 500,
  });
  await putSecret(own, "keys", { psk: "" });
  await look(own);
  await own.condition("Validated", "False", { reason: "SecretKeyMissing", timeoutMs: 90_000 });
  await putSecret(own, "keys", { psk: KEYS.second });

  // Broken behind the credential, in the middle of it, refused by Keystone.
  for (
    const text of [
      `${clouds.yaml}}}`,
      `clouds: {lab: {auth: [${clouds.secret}]}}`,
      cloudsYaml(PROXY_AUTH_URL, clouds.secret),
    ]
  ) {
    await putSecret(own, "cloud", { "clouds.yaml": text });
    await look(own);
    await own.condition("Validated", "False", { reason: "CloudCredentialsInvalid", timeoutMs: 90_000 });
    await putSecret(own, "cloud", { "clouds.yaml": clouds.yaml });
    await look(own);
    await own.condition("Validated", "True", { timeoutMs: 90_000 });
  }

  // Each process of ours dies once, so that there is a log of before.
  Deno.kill(await firstProcess(pod, "status-agent"), "SIGKILL");
  Deno.kill(await firstProcess(await operatorPod(), "controller"), "SIGKILL");
  const charon = (await podProcesses(pod.metadata?.uid ?? "")).find(({ command }) =>
    command === "charon-systemd"
  );
  Deno.kill(charon?.pid ?? NaN, "SIGKILL");
  await until("the agent was restarted", async () => {
    return (restarts(await gatewayPod(own.namespace))["status-agent"] ?? 0) > 0;
  }, { timeoutMs: 60_000, intervalMs: 250 });
  await operatorPod();
  await own.loadPartner({ key: KEYS.second });
  const killedAt = Date.now();
  await until("the agent reports again", async () => {
    const { status } = await own.gateway();
    return Date.parse(status?.agent?.lastHeartbeatTime ?? "") > killedAt;
  }, { timeoutMs: 90_000, intervalMs: 250 });
  await established(own);
  return await gatewayPod(own.namespace);
}

async function established(own: Tenant): Promise<void> {
  await until("the tunnel is ESTABLISHED", async () => (await own.tunnelState()) === "ESTABLISHED", {
    timeoutMs: 90_000,
    intervalMs: 250,
  });
}

const bytes = new TextEncoder().encode(MARKER);
const inBase64 = btoa(String.fromCharCode(...bytes));
const inHex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Puts the marker into each kind of place, each time in another form; disposing ends what holds it. */
async function plant(own: Tenant, pod: Pod): Promise<AsyncDisposable> {
  const name = pod.metadata?.name ?? "";
  const supervisor = await firstProcess(pod, "strongswan");
  await own.kubectl(["exec", "-i", name, "-c", "strongswan", "--", "sh", "-c", "cat > /proc/1/fd/1"], {
    input: `${MARKER}\n`,
  });
  const object = { namespace: own.namespace, name: "planted" };
  await apply([
    { apiVersion: "v1", kind: "ConfigMap", metadata: object, data: { value: `x${inBase64}` } },
    {
      apiVersion: "v1",
      kind: "Event",
      metadata: object,
      type: "Normal",
      reason: "Planted",
      message: encodeURIComponent(MARKER),
      involvedObject: { apiVersion: "v1", kind: "ConfigMap", ...object },
    },
  ]);
  const files = [`/proc/${supervisor}/root/run/ipsec/planted`, `/proc/${supervisor}/root/dev/shm/planted`];
  for (const file of files) await Deno.writeTextFile(file, `a=${inHex.toUpperCase()}\n`);
  // It waits for its standard input to end, with the marker in its arguments and its environment.
  const holder = new Deno.Command(`${CACHE}/k8s/bin-one/kubectl`, {
    args: [
      ...["-n", own.namespace, "exec", "-i", name, "-c", "strongswan", "--"],
      ...["env", `PLANTED=${inHex}`, "cat", "-", `/${inBase64}`],
    ],
    env: { KUBECONFIG },
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  await until("the process that holds the marker runs", async () => {
    return (await processesOf(pod)).some(({ where, text }) =>
      where.startsWith("cmdline") && text.includes(inBase64)
    );
  });
  return {
    async [Symbol.asyncDispose]() {
      await holder.stdin.close();
      await holder.status;
      for (const file of files) await Deno.remove(file);
    },
  };
}

/** Everything there is to read of the gateway and of the operator. */
async function everything(own: Tenant, pod: Pod): Promise<Place[]> {
  const operator = await operatorPod();
  const places: Place[] = [
    ...await objectsOf(own.namespace, ["keys", "cloud"]),
    ...await objectsOf(OPERATOR_NAMESPACE, ["clouds"]),
    ...await objectsOf(undefined, []),
  ];
  for (const each of [pod, operator]) {
    places.push(...await logsOf(each), ...await processesOf(each), ...await filesOf(each));
  }
  return places;
}

/** `form where` of each place that holds the secret. */
function found(places: readonly Place[], secret: string): string[] {
  const forms: Form[] = formsOf(secret);
  return places.flatMap(({ where, text }) => formsIn(text, forms).map((form) => `${form} ${where}`)).sort();
}

Deno.test("keys and credentials are nowhere but in their Secrets", async (t) => {
  await installOperator();
  await using clouds = await credentials();
  await using own = await tenant();
  const pod = await live(own, clouds);
  await using _planted = await plant(own, pod);
  const places = await everything(own, pod);

  await t.step("the search covers every kind of place of both pods", () => {
    const of = (start: RegExp) => places.filter(({ where }) => start.test(where)).map(({ where }) => where);
    const gateway = `${own.namespace}/${pod.metadata?.name}`;
    for (const container of ["strongswan", "status-agent", "init-nat"]) {
      assert.equal(of(new RegExp(`^log ${gateway} ${container}$`)).length, 1, container);
    }
    assert.equal(of(new RegExp(`^log ${gateway} status-agent \\(previous\\)$`)).length, 1);
    assert.equal(of(new RegExp(`^log ${OPERATOR_NAMESPACE}/.* controller( \\(previous\\))?$`)).length, 2);
    for (const process of ["charon-superviso", "charon-systemd", "status-agent", "nat-apply", "controller"]) {
      const name = process.slice(0, 15);
      assert.notEqual(of(new RegExp(`^environ .* ${name} `)).length, 0, of(/^environ/).join("\n"));
    }
    for (const file of ["strongswan.conf", "digests.json", "fenced"]) {
      assert.notEqual(
        of(new RegExp(`^file ${gateway} .*/run/ipsec/${file}$`)).length,
        0,
        of(/^file/).join("\n"),
      );
    }
    for (const kind of ["Event", "ConfigMap", "Pod", "IPsecGateway", "Deployment", "ReplicaSet"]) {
      assert.notEqual(of(new RegExp(`^object ${own.namespace} ${kind} `)).length, 0, kind);
    }
  });

  await t.step("the search finds what is there, in each kind of place and each form", async () => {
    const hits = found(places, MARKER);
    for (
      const expected of [
        /^raw log .* strongswan$/,
        /^base64 object .* ConfigMap planted$/,
        /^url object .* Event planted$/,
        /^hex environ .* cat \d+$/,
        /^base64 cmdline .* cat \d+$/,
        /^hex file .* \/run\/ipsec\/planted$/,
        /^hex file .* \/dev\/shm\/planted$/,
      ]
    ) assert.ok(hits.some((hit) => expected.test(hit)), `${expected} is not in\n${hits.join("\n")}`);
    const holders = await objectsOf(own.namespace, []);
    assert.ok(found(holders, KEYS.second).includes(`base64 object ${own.namespace} Secret keys`));
    assert.ok(found(holders, clouds.secret).includes(`base64 object ${own.namespace} Secret cloud`));
  });

  for (const [name, secret] of Object.entries({ ...KEYS, credential: clouds.secret })) {
    await t.step(`${name === "credential" ? "the cloud's credential" : `the ${name} key`} is in none`, () => {
      assert.deepEqual(found(places, secret), []);
    });
  }
});
