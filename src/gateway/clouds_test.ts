import assert from "node:assert/strict";
import type { IPsecGateway } from "../api/ipsec_gateway.ts";
import { type Clouds, createClouds, CredentialsError } from "./clouds.ts";
import { gatewayOptions, NOW, otherGateway, putSecret, startWorld, type World } from "./context_builder.ts";
import type { GatewayOptions } from "./options.ts";

const { signal } = new AbortController();

function clouds(names: Record<string, { password?: string; url?: string }>): string {
  return JSON.stringify({
    clouds: Object.fromEntries(
      Object.entries(names).map(([name, { password = "sesame", url = "http://127.0.0.1:1/v3" }]) => [name, {
        auth: { auth_url: url, user_id: "u", password, project_id: "p" },
      }]),
    ),
  });
}

function naming(secret: string, cloud?: string): IPsecGateway {
  return otherGateway("gw", {
    openstack: { cloudSecretRef: { name: secret }, ...(cloud === undefined ? {} : { cloud }) },
  });
}

function start(
  world: World,
  openstack: Partial<GatewayOptions["openstack"]> = {},
  now: () => number = () => NOW.getTime(),
): Clouds {
  return createClouds({
    kube: world.deps.kube,
    openstack: { ...gatewayOptions().openstack, ...openstack },
    now,
  });
}

/** The error of a gateway whose credentials can't be used. */
async function problem(of: Clouds, gateway: IPsecGateway): Promise<{ reason: string; message: string }> {
  try {
    await of.for(gateway, { signal });
  } catch (error) {
    assert.ok(error instanceof CredentialsError, String(error));
    return { reason: error.reason, message: error.message };
  }
  throw new Error("Cannot see an error: the credentials were used");
}

Deno.test("for() names Secret, field and what to do when the Secret is missing", async () => {
  await using world = startWorld();
  await using all = start(world);
  assert.deepEqual(await problem(all, naming("cloud")), {
    reason: "SecretNotFound",
    message:
      "Cannot find Secret tenant/cloud (spec.openstack.cloudSecretRef of IPsecGateway tenant/gw): create it with a key clouds.yaml",
  });
});

Deno.test("for() names Secret and what to do when the Secret has no clouds.yaml", async () => {
  await using world = startWorld();
  await using all = start(world);
  putSecret(world, "cloud", { other: "x" });
  const { reason, message } = await problem(all, naming("cloud"));
  assert.equal(reason, "CloudCredentialsInvalid");
  assert.match(message, /Secret tenant\/cloud .*has no key clouds\.yaml: put the file there/);
});

Deno.test("for() names Secret and fault, and no key, when clouds.yaml is unusable", async () => {
  await using world = startWorld();
  await using all = start(world);
  const wrong: readonly (readonly [text: string, cloud: string | undefined, told: RegExp])[] = [
    ["clouds: [sesame", undefined, /is not YAML/],
    ["sesame: 1", undefined, /has no mapping named clouds/],
    [clouds({ one: {}, two: {} }), undefined, /without a name: it has "one", "two"/],
    [clouds({ one: {} }), "three", /Cannot find cloud "three" in clouds\.yaml: it has "one"/],
    ['{"clouds":{"one":{"auth":{"password":"sesame"}}}}', undefined, /auth_url/],
  ];
  for (const [text, cloud, told] of wrong) {
    putSecret(world, "cloud", { "clouds.yaml": text });
    const { reason, message } = await problem(all, naming("cloud", cloud));
    assert.equal(reason, "CloudCredentialsInvalid");
    assert.match(message, /^Cannot use Secret tenant\/cloud \(spec\.openstack\.cloudSecretRef/);
    assert.match(message, told);
    assert.doesNotMatch(message, /sesame/);
  }
});

Deno.test("for() says what to set when neither gateway nor operator has credentials", async () => {
  await using world = startWorld();
  await using all = start(world);
  const { reason, message } = await problem(all, otherGateway("gw"));
  assert.equal(reason, "CloudCredentialsInvalid");
  assert.match(message, /no default credentials; set spec\.openstack\.cloudSecretRef/);
});

Deno.test("for() names file and flag when the operator's clouds.yaml cannot be read", async () => {
  await using world = startWorld();
  await using all = start(world, { cloudsFile: "/nowhere/clouds.yaml" });
  const { message } = await problem(all, otherGateway("gw"));
  assert.match(
    message,
    /Cannot read the operator's \/nowhere\/clouds\.yaml: check the operator's --clouds-file/,
  );
});

Deno.test("for() reads the operator's file, and the cloud that it is to use", async () => {
  await using world = startWorld();
  const dir = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${dir}/clouds.yaml`, clouds({ one: {}, two: {} }));
    await using all = start(world, { cloudsFile: `${dir}/clouds.yaml`, cloud: "two" });
    assert.ok(await all.for(otherGateway("gw"), { signal }));
    await using other = start(world, { cloudsFile: `${dir}/clouds.yaml`, cloud: "three" });
    assert.match((await problem(other, otherGateway("gw"))).message, /Cannot find cloud "three"/);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("for() gives gateways with the same credentials one client, and others their own", async () => {
  await using world = startWorld();
  await using all = start(world);
  putSecret(world, "one", { "clouds.yaml": clouds({ c: {} }) });
  putSecret(world, "same", { "clouds.yaml": clouds({ c: {} }) });
  putSecret(world, "other", { "clouds.yaml": clouds({ c: { password: "else" } }) });
  const one = await all.for(naming("one"), { signal });
  assert.equal(await all.for(naming("one"), { signal }), one);
  assert.equal(await all.for(naming("same"), { signal }), one);
  assert.notEqual(await all.for(naming("other"), { signal }), one);
});

Deno.test("for() takes a rotated Secret at the next call", async () => {
  await using world = startWorld();
  await using all = start(world);
  putSecret(world, "cloud", { "clouds.yaml": clouds({ c: {} }) });
  const old = await all.for(naming("cloud"), { signal });
  putSecret(world, "cloud", { "clouds.yaml": clouds({ c: { password: "new" } }) });
  assert.notEqual(await all.for(naming("cloud"), { signal }), old);
});

Deno.test("for() closes a client that nobody has asked for during an hour, and keeps the others", async () => {
  await using world = startWorld();
  let now = NOW.getTime();
  await using all = start(world, {}, () => now);
  putSecret(world, "idle", { "clouds.yaml": clouds({ c: {} }) });
  putSecret(world, "busy", { "clouds.yaml": clouds({ c: { password: "busy" } }) });
  const idle = await all.for(naming("idle"), { signal });
  const busy = await all.for(naming("busy"), { signal });
  now += 3_599_999;
  assert.equal(await all.for(naming("busy"), { signal }), busy);
  now += 1;
  assert.equal(await all.for(naming("busy"), { signal }), busy);
  assert.notEqual(await all.for(naming("idle"), { signal }), idle);
});
