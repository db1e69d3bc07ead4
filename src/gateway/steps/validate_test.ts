import assert from "node:assert/strict";
import { SECRETS } from "../../kube/kinds.ts";
import { CredentialsError } from "../clouds.ts";
import type { GatewayContext } from "../context.ts";
import { putSecret, startWorld, type World } from "../context_builder.ts";
import { gateway, tunnel } from "../gateway_builder.ts";
import { validate } from "./validate.ts";

/** What the step says of the stored gateway, as "reason: message"; "" when it is done. */
async function said(world: World, more: Partial<GatewayContext> = {}): Promise<string> {
  const outcome = await validate.run({ ...world.context(), ...more });
  return outcome.kind === "done" ? "" : `${outcome.reason}: ${outcome.message}`;
}

Deno.test("validate opens the cloud and tells each peer's addresses when everything is usable", async () => {
  await using world = startWorld();
  const tunnels = [
    tunnel(),
    tunnel({
      name: "paris",
      peer: { address: "vpn.example.org", port: 500 },
      remoteSubnets: ["192.168.78.0/24"],
    }),
  ];
  world.put(gateway({ tunnels }));
  const context: GatewayContext = {
    ...world.context(),
    resolve: () => Promise.resolve(["198.51.100.2", "198.51.100.1"]),
  };
  assert.equal((await validate.run(context)).kind, "done");
  assert.deepEqual(Object.fromEntries(context.facts.peers ?? []), {
    berlin: ["203.0.113.250"],
    paris: ["198.51.100.1", "198.51.100.2"],
  });
  assert.ok(context.facts.cloud);
});

Deno.test("validate names Secret, field and what to do when the Secret of the keys is missing", async () => {
  await using world = startWorld();
  world.put(gateway({ psk: { secretName: "not-there", key: "psk" } }));
  assert.equal(
    await said(world),
    "SecretNotFound: Secret tenant/not-there (spec.psk.secretName of IPsecGateway tenant/gw) does not exist: create it with a key psk",
  );
});

Deno.test("validate names the key that is missing or empty", async () => {
  await using world = startWorld();
  world.put(gateway());
  putSecret(world, "keys", { other: "x" });
  assert.match(await said(world), /^SecretKeyMissing: Secret tenant\/keys has no key psk: add it/);
  for (const empty of ["", "\n"]) {
    putSecret(world, "keys", { psk: empty });
    assert.match(await said(world), /^SecretKeyMissing: Key psk of Secret tenant\/keys is empty/);
  }
});

Deno.test("validate wants a tunnel's own key, and the shared one only where a tunnel uses it", async () => {
  await using world = startWorld();
  world.put(gateway({ tunnels: [tunnel({ psk: { key: "berlin" } })] }));
  putSecret(world, "keys", { berlin: "x" });
  assert.equal(await said(world), "");
  putSecret(world, "keys", { psk: "x" });
  assert.match(await said(world), /has no key berlin/);
});

Deno.test("validate names tunnel and cause when a peer's name does not resolve", async () => {
  await using world = startWorld();
  world.put(gateway({ tunnels: [tunnel({ peer: { address: "vpn.example.org", port: 500 } })] }));
  const resolve = () => Promise.reject(new Error("NXDOMAIN"));
  assert.match(
    await said(world, { resolve }),
    /^PeerUnresolvable: Tunnel berlin: peer\.address vpn\.example\.org does not resolve \(NXDOMAIN\)/,
  );
  assert.match(await said(world), /it has no IPv4 address/);
});

Deno.test("validate tells credentials that are refused from a cloud that does not answer", async () => {
  const cases = [
    [{ match: /\/auth\/tokens/, status: 401 }, /^CloudCredentialsInvalid: .*the operator's cloud/],
    [{ match: /\/networks/, status: 403 }, /^CloudCredentialsInvalid: /],
    [{ match: /\/networks/, status: 503 }, /^CloudUnreachable: /],
    [{ match: /\/networks/, cut: "before" as const }, /^CloudUnreachable: /],
  ] as const;
  for (const [fault, told] of cases) {
    await using world = startWorld();
    world.put(gateway());
    world.double.fail({ ...fault, times: 9 });
    assert.match(await said(world), told);
  }
});

Deno.test("validate says what the credentials' own error says", async () => {
  await using world = startWorld();
  world.put(gateway());
  const clouds = {
    for: () => Promise.reject(new CredentialsError("SecretNotFound", "Cannot find Secret tenant/cloud")),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  assert.equal(await said(world, { clouds }), "SecretNotFound: Cannot find Secret tenant/cloud");
});

Deno.test("validate guards the cloud Secret before the cloud is used", async () => {
  await using world = startWorld();
  putSecret(world, "cloud", { "clouds.yaml": "x" });
  world.put(gateway({ openstack: { cloudSecretRef: { name: "cloud" } } }));
  let guarded: readonly string[] | undefined;
  world.double.fail({
    match: /\/networks/,
    meanwhile: () => guarded = world.read(SECRETS, "cloud")?.metadata?.finalizers,
  });
  assert.equal(await said(world), "");
  assert.deepEqual(guarded, ["ipsec.bnerd.net/cloud-credentials"]);
});

Deno.test("validate asks nobody when the spec itself is wrong", async () => {
  await using world = startWorld();
  world.put(gateway({ tunnels: [tunnel(), tunnel({ name: "again" })] }));
  assert.match(await said(world), /^DuplicatePeer: Tunnels berlin and again/);
  assert.deepEqual([world.api.requests.length, world.double.calls.length], [0, 0]);
});
