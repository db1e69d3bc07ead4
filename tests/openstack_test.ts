// The client against the lab's real Keystone, Neutron and Nova.
import assert from "node:assert/strict";
import { z } from "zod";
import { OpenStackClient } from "../src/openstack/client.ts";
import { parseClouds } from "../src/openstack/clouds.ts";
import type { OpenStack, SeenRequest } from "../src/openstack/contract.ts";
import { deleteSecurityGroup, ensureSecurityGroup } from "../src/openstack/ensure/security_group.ts";
import { naming, OpenStackError } from "../src/openstack/errors.ts";
import { listAll } from "../src/openstack/pages.ts";
import { AUTH_URL } from "./lab/cloud.ts";
import { IKE, place, tenantClouds } from "./openstack_place.ts";

Deno.test("OpenStackClient authenticates again, once, when its token was revoked", async () => {
  const seen: SeenRequest[] = [];
  await using os = new OpenStackClient(parseClouds(tenantClouds()), { onRequest: (one) => seen.push(one) });
  let token = "";
  const spying: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    token = response.headers.get("x-subject-token") ?? token;
    return response;
  };
  await using client = new OpenStackClient(parseClouds(tenantClouds()), {
    fetch: spying,
    onRequest: (one) => seen.push(one),
  });
  const networks = () => client.request({ service: "network", method: "GET", path: "/v2.0/networks" });
  await networks();
  const revoked = await fetch(`${AUTH_URL}/auth/tokens`, {
    method: "DELETE",
    headers: { "x-auth-token": token, "x-subject-token": token },
  });
  assert.equal(revoked.status, 204);
  await revoked.body?.cancel();
  seen.length = 0;
  await Promise.all(Array.from({ length: 5 }, networks));
  assert.equal(seen.filter((one) => one.service === "identity").length, 1, "one renewal for all five");
  assert.ok(seen.some((one) => one.code === "401"), "the token was refused");
  void os;
});

Deno.test("OpenStackClient works with an application credential, and says so when it is wrong", async () => {
  const { token, user } = await tenantToken();
  const name = `test-${crypto.randomUUID()}`;
  const made = await fetch(`${AUTH_URL}/users/${user}/application_credentials`, {
    method: "POST",
    headers: { "x-auth-token": token, "content-type": "application/json" },
    body: JSON.stringify({ application_credential: { name, secret: "s3cret" } }),
  });
  const { application_credential: { id } } = await made.json() as { application_credential: { id: string } };
  const cloud = (fields: string) =>
    parseClouds(
      `clouds: {a: {auth: {auth_url: "${AUTH_URL}", ${fields}, application_credential_secret: s3cret}}}`,
    );
  for (
    const fields of [
      `application_credential_id: ${id}`,
      `application_credential_name: ${name}, user_id: ${user}`,
    ]
  ) {
    await using at = await place(cloud(fields));
    assert.equal((await ensureSecurityGroup(at.os, at.owner, { rules: IKE })).id.length, 36);
  }
  await using wrong = new OpenStackClient(
    cloud("application_credential_id: 0123456789abcdef0123456789abcdef"),
  );
  await assert.rejects(
    wrong.request({ service: "network", method: "GET", path: "/v2.0/networks" }),
    (error) => {
      assert.ok(error instanceof OpenStackError);
      assert.equal(error.service, "identity");
      assert.ok(!error.message.includes("s3cret"));
      return true;
    },
  );
});

Deno.test("OpenStackClient trusts the CA that is given, and says what to do when it is missing", async () => {
  const folder = await Deno.makeTempDir();
  const openssl = async (...args: string[]) => {
    const { success, stderr } = await new Deno.Command("openssl", { args, cwd: folder }).output();
    assert.ok(success, new TextDecoder().decode(stderr));
  };
  const file = (name: string) => Deno.readTextFile(`${folder}/${name}`);
  try {
    await openssl(
      ..."req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test-ca".split(" "),
    );
    await openssl(
      ..."req -newkey rsa:2048 -nodes -keyout tls.key -out tls.csr -subj /CN=keystone".split(" "),
    );
    await Deno.writeTextFile(`${folder}/san`, "subjectAltName=IP:127.0.0.1\n");
    await openssl(
      ..."x509 -req -in tls.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out tls.pem"
        .split(" "),
    );
    await using server = Deno.serve({
      hostname: "127.0.0.1",
      port: 0,
      cert: await file("tls.pem"),
      key: await file("tls.key"),
      onListen: () => {},
    }, async (request) => {
      const { headers, method } = request;
      return await fetch(AUTH_URL + new URL(request.url).pathname.slice("/v3".length), {
        method,
        headers,
        body: await request.text(),
      });
    });
    const clouds = tenantClouds(`https://127.0.0.1:${server.addr.port}/v3`);
    const project = async (options: { caCert?: string }) => {
      await using os = new OpenStackClient(parseClouds(clouds, options));
      return await naming("use the cloud", () => os.projectID());
    };
    assert.match(await project({ caCert: await file("ca.pem") }), /^[0-9a-f]{32}$/);
    await assert.rejects(project({}), /UnknownIssuer; give the CA in the cloud Secret's key cacert/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("OpenStackClient names region and interface when the catalog lacks them", async () => {
  await using os = new OpenStackClient({ ...parseClouds(tenantClouds()), region: "Nowhere" });
  await assert.rejects(
    os.request({ service: "compute", method: "GET", path: "/servers" }),
    /Cannot call compute: the catalog has no endpoint with interface "public" and region "Nowhere"/,
  );
});

Deno.test("listAll() reads every page, also when the marker vanishes in between", async () => {
  await using at = await place();
  const owners = [at.owner, at.another(), at.another(), at.another()];
  for (const owner of owners) await ensureSecurityGroup(at.os, owner, { rules: [] });
  const ids = (await at.judge.list("security-groups")).map((group) => group.id).sort();
  let removed = "";
  const os: OpenStack = {
    async request(request) {
      const { marker } = request.query ?? {};
      if (Array.isArray(marker) && !removed) {
        // The owner whose group is the marker deletes it.
        const groups = await at.judge.list("security-groups");
        const victim = groups.find((group) => group.id === marker[0]);
        const owner = owners.find((one) => one.name === victim?.name);
        if (owner) {
          removed = victim!.id;
          await deleteSecurityGroup(at.os, owner);
        }
      }
      return await at.os.request(request);
    },
  };
  const found = await listAll(os, {
    service: "network",
    path: "/v2.0/security-groups",
    plural: "security_groups",
    schema: z.object({ id: z.string() }),
    query: { limit: 1 },
  });
  assert.notEqual(removed, "", "a marker vanished");
  // The one that vanished was there when its page was read.
  const left = (all: string[]) => all.filter((id) => id !== removed).sort();
  assert.deepEqual(left(found.map((one) => one.id)), left(ids));
});

async function tenantToken(): Promise<{ token: string; user: string }> {
  const domain = { name: "Default" };
  const response = await fetch(`${AUTH_URL}/auth/tokens`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      auth: {
        identity: {
          methods: ["password"],
          password: { user: { name: "tenant", domain, password: "tenantpw" } },
        },
        scope: { project: { name: "tenant", domain } },
      },
    }),
  });
  const answer = await response.json() as { token: { user: { id: string } } };
  return { token: response.headers.get("x-subject-token") ?? "", user: answer.token.user.id };
}
