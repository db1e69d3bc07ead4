// Before client-node, as everywhere.
import "./worker_threads_shim.ts";
import assert from "node:assert/strict";
import { CoreV1Api, CustomObjectsApi } from "@kubernetes/client-node";
import { findConnection } from "./connect.ts";
import { createKubeClient } from "./client.ts";
import { clientNode, kubeconfigConnection } from "./kubeconfig.ts";
import { type LoopbackApiServer, startLoopbackApiServer, statusAnswer } from "./loopback_apiserver.ts";

interface Files extends AsyncDisposable {
  write(name: string, text: string): Promise<string>;
}

async function files(): Promise<Files> {
  const directory = await Deno.makeTempDir();
  return {
    async write(name, text) {
      const path = `${directory}/${name}`;
      await Deno.writeTextFile(path, text, { mode: 0o700 });
      return path;
    },
    [Symbol.asyncDispose]: () => Deno.remove(directory, { recursive: true }),
  };
}

/** A kubeconfig for the loopback server; `user` and `cluster` are more fields in YAML's flow style. */
function kubeconfig(api: LoopbackApiServer, { user = "token: secret", cluster = "" } = {}): string {
  return `
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "${api.connection.server}/"${cluster ? `, ${cluster}` : ""}}}]
users: [{name: u, user: {${user}}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: prod}}
- {name: two, context: {cluster: c, user: u}}
- {name: broken, context: {cluster: none, user: u}}
`;
}

Deno.test("kubeconfigConnection() reads server, namespace and token of the current context", async () => {
  await using directory = await files();
  await using api = startLoopbackApiServer();
  const path = await directory.write("config", kubeconfig(api));
  const connection = kubeconfigConnection({ files: [path] });
  assert.deepEqual([connection.server, connection.namespace], [api.connection.server, "prod"]);
  assert.deepEqual((await connection.credentials()).headers, { authorization: "Bearer secret" });
  assert.equal(kubeconfigConnection({ files: [path], context: "two" }).namespace, "default");
});

Deno.test("kubeconfigConnection() gives PEM of certificates in the file", async () => {
  await using directory = await files();
  await using api = startLoopbackApiServer();
  const user = `client-certificate-data: ${btoa("CERT")}, client-key-data: ${btoa("KEY")}`;
  const text = kubeconfig(api, { user, cluster: `certificate-authority-data: ${btoa("CA")}` });
  const path = await directory.write("config", text.replace("http://", "https://"));
  assert.deepEqual((await kubeconfigConnection({ files: [path] }).credentials()).tls, {
    caCerts: ["CA"],
    cert: "CERT",
    key: "KEY",
  });
});

Deno.test("kubeconfigConnection() runs an exec plugin, and again when its token was refused", async () => {
  await using directory = await files();
  await using api = startLoopbackApiServer();
  const count = await directory.write("count", "0");
  const plugin = await directory.write(
    "plugin",
    `#!/bin/sh
n=$(($(cat ${count}) + 1)); echo $n > ${count}
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t'$n'"}}'
`,
  );
  const user =
    `exec: {apiVersion: client.authentication.k8s.io/v1, command: "${plugin}", interactiveMode: Never}`;
  const path = await directory.write("config", kubeconfig(api, { user }));
  using client = createKubeClient(kubeconfigConnection({ files: [path] }));
  let valid = "Bearer t1";
  api.intercept = ({ headers }) =>
    headers.get("authorization") === valid ? undefined : statusAnswer(401, "Unauthorized");
  await client.request({ method: "GET", path: "/api/v1/nodes" });
  await client.request({ method: "GET", path: "/api/v1/nodes" });
  assert.equal((await Deno.readTextFile(count)).trim(), "1");
  valid = "Bearer t2";
  await client.request({ method: "GET", path: "/api/v1/nodes" });
  assert.equal((await Deno.readTextFile(count)).trim(), "2");
});

Deno.test("kubeconfigConnection() says what is wrong with a kubeconfig", async () => {
  await using directory = await files();
  await using api = startLoopbackApiServer();
  const path = await directory.write("config", kubeconfig(api));
  assert.throws(() => kubeconfigConnection({ files: ["/nowhere"] }), /Cannot load kubeconfig \/nowhere/);
  assert.throws(
    () => kubeconfigConnection({ files: [path], context: "none" }),
    /Cannot use context "none" .*; there is broken, one, two/,
  );
  assert.throws(() => kubeconfigConnection({ files: [path], context: "broken" }), /names no cluster of it/);
  const insecure = kubeconfig(api, { cluster: "insecure-skip-tls-verify: true" }).replace(
    "http://",
    "https://",
  );
  const other = await directory.write("insecure", insecure);
  assert.throws(() => kubeconfigConnection({ files: [other] }), /insecure-skip-tls-verify is true/);
});

Deno.test("kubeconfigConnection() merges several files, the first one's context wins", async () => {
  await using directory = await files();
  await using api = startLoopbackApiServer();
  const one = await directory.write("one", kubeconfig(api));
  const two = await directory.write(
    "two",
    `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: d, cluster: {server: "http://other"}}],
users: [], contexts: [{name: x, context: {cluster: d, user: u}}]}`,
  );
  assert.equal(kubeconfigConnection({ files: [one, two] }).server, api.connection.server);
  assert.equal(kubeconfigConnection({ files: [one, two], context: "x" }).server, "http://other");
});

Deno.test("findConnection() prefers the flag, then KUBECONFIG, then the pod, then the home directory", async () => {
  await using directory = await files();
  await using api = startLoopbackApiServer();
  const path = await directory.write("config", kubeconfig(api));
  const env = (values: Record<string, string>) => (name: string) => values[name];
  const pod = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
  const { server } = api.connection;
  assert.equal((await findConnection({ kubeconfig: path, env: env(pod) })).server, server);
  assert.equal((await findConnection({ env: env({ ...pod, KUBECONFIG: path }) })).server, server);
  await assert.rejects(findConnection({ env: env(pod) }), /ServiceAccount's/);
  await assert.rejects(findConnection({ env: env({ HOME: "/nowhere" }) }), /\/nowhere\/\.kube\/config/);
  await assert.rejects(findConnection({ env: env({}) }), /Cannot find the API server/);
});

Deno.test("clientNode() carries typed calls over one kept connection, with our credentials", async () => {
  await using api = startLoopbackApiServer();
  using node = clientNode(api.connection);
  const core = node.configuration;
  const typed = new CoreV1Api(core);
  await typed.createNamespacedConfigMap({
    namespace: "a",
    body: { metadata: { name: "x" }, data: { k: "v" } },
  });
  for (let round = 0; round < 20; round++) {
    assert.equal((await typed.readNamespacedConfigMap({ namespace: "a", name: "x" })).data?.k, "v");
  }
  assert.equal(new Set(api.requests.map(({ port }) => port)).size, 1);
  assert.equal(api.requests[0]?.headers.get("authorization"), "Bearer loopback");
  await assert.rejects(typed.readNamespacedConfigMap({ namespace: "a", name: "none" }), { code: 404 });
  const custom = new CustomObjectsApi(core);
  api.put("/apis/x.net/v1/namespaces/a/things", { metadata: { name: "t" } });
  const thing = await custom.getNamespacedCustomObject({
    group: "x.net",
    version: "v1",
    namespace: "a",
    plural: "things",
    name: "t",
  });
  assert.equal(thing.metadata.name, "t");
});

Deno.test("clientNode() fails a call that gets no answer in time", async () => {
  await using api = startLoopbackApiServer();
  using node = clientNode(api.connection, { timeoutMs: 50 });
  const never = Promise.withResolvers<undefined>();
  api.intercept = () => never.promise;
  await assert.rejects(new CoreV1Api(node.configuration).listNode(), /No answer within 50 ms/);
  never.resolve(undefined);
});
