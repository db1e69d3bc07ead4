import assert from "node:assert/strict";
import { createKubeClient } from "./client.ts";
import { inClusterConnection } from "./in_cluster.ts";
import { startLoopbackApiServer, statusAnswer } from "./loopback_apiserver.ts";

const env = (name: string) =>
  ({ KUBERNETES_SERVICE_HOST: "10.0.0.1", KUBERNETES_SERVICE_PORT: "443" } as Record<string, string>)[name];

async function accountDirectory(): Promise<{ path: string } & AsyncDisposable> {
  const path = await Deno.makeTempDir();
  await Deno.writeTextFile(`${path}/token`, "first\n");
  await Deno.writeTextFile(`${path}/ca.crt`, "-----BEGIN CERTIFICATE-----\n");
  await Deno.writeTextFile(`${path}/namespace`, "prod");
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

Deno.test("inClusterConnection() reads server, namespace, token and CA", async () => {
  await using directory = await accountDirectory();
  const connection = await inClusterConnection({ directory: directory.path, env });
  assert.equal(connection.server, "https://10.0.0.1:443");
  assert.equal(connection.namespace, "prod");
  const { headers, tls } = await connection.credentials();
  assert.equal(headers.authorization, "Bearer first");
  assert.deepEqual(tls.caCerts, ["-----BEGIN CERTIFICATE-----"]);
});

Deno.test("inClusterConnection() writes an IPv6 server in brackets", async () => {
  await using directory = await accountDirectory();
  const connection = await inClusterConnection({
    directory: directory.path,
    env: (name) => name.endsWith("HOST") ? "fd00::1" : "6443",
  });
  assert.equal(connection.server, "https://[fd00::1]:6443");
});

Deno.test("inClusterConnection() reads a rotated token after a minute, or at once when asked", async () => {
  await using directory = await accountDirectory();
  let now = 0;
  const connection = await inClusterConnection({ directory: directory.path, env, now: () => now });
  await Deno.writeTextFile(`${directory.path}/token`, "second");
  assert.equal((await connection.credentials()).headers.authorization, "Bearer first");
  now = 61_000;
  assert.equal((await connection.credentials()).headers.authorization, "Bearer second");
  await Deno.writeTextFile(`${directory.path}/token`, "third");
  assert.equal((await connection.credentials({ fresh: true })).headers.authorization, "Bearer third");
});

Deno.test("createKubeClient() goes on with the rotated token when the old one is refused", async () => {
  await using directory = await accountDirectory();
  await using api = startLoopbackApiServer();
  const pod = await inClusterConnection({ directory: directory.path, env });
  // The real server speaks TLS with this CA; only the credentials are of interest here.
  using client = createKubeClient({
    ...api.connection,
    credentials: async (options) => ({ ...await pod.credentials(options), tls: {} }),
  });
  let valid = "Bearer first";
  api.intercept = ({ headers }) =>
    headers.get("authorization") === valid ? undefined : statusAnswer(401, "Unauthorized");
  const request = { method: "GET", path: "/api/v1/nodes" } as const;
  await client.request(request);
  valid = "Bearer second";
  await Deno.writeTextFile(`${directory.path}/token`, "second");
  await client.request(request);
  assert.equal(api.requests.length, 3);
});

Deno.test("inClusterConnection() says what is missing when it is not in a pod", async () => {
  await assert.rejects(inClusterConnection({ env: () => undefined }), /KUBERNETES_SERVICE_HOST is not set/);
  await assert.rejects(
    inClusterConnection({ directory: "/nowhere", env }),
    /Cannot read the ServiceAccount's (token|ca\.crt) at \/nowhere/,
  );
});
