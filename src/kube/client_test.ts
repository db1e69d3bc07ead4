import assert from "node:assert/strict";
import { eventually } from "../process/eventually.ts";
import { createKubeClient } from "./client.ts";
import type { KubeConnection } from "./connection.ts";
import { KubeError } from "./errors.ts";
import { startLoopbackApiServer, statusAnswer } from "./loopback_apiserver.ts";

const MAPS = "/api/v1/namespaces/a/configmaps";

/** A connection to a raw TCP server. */
function connectionTo(listener: Deno.TcpListener): KubeConnection {
  return {
    server: `http://127.0.0.1:${listener.addr.port}`,
    namespace: "default",
    credentials: () => Promise.resolve({ headers: {}, tls: {} }),
  };
}

async function kubeError(promise: Promise<unknown>): Promise<KubeError> {
  const error = await promise.then(() => undefined, (error: unknown) => error);
  assert(error instanceof KubeError, `expected a KubeError, got ${error}`);
  return error;
}

Deno.test("request() sends method, query, body and token, and parses the answer", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  const made = await client.request<{ metadata: { name: string; uid: string } }>({
    method: "POST",
    path: MAPS,
    query: { fieldManager: "me", dryRun: undefined },
    body: { metadata: { name: "x" } },
  });
  assert.equal(made.metadata.name, "x");
  const [sent] = api.requests;
  assert.equal(sent?.query.toString(), "fieldManager=me");
  assert.equal(sent?.headers.get("authorization"), "Bearer loopback");
  assert.equal(sent?.headers.get("content-type"), "application/json");
});

Deno.test("request() throws a KubeError with the Status when the answer is no success", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  const details = { name: "x", causes: [{ field: "spec.y", message: "no" }] };
  api.intercept = () =>
    Response.json({ kind: "Status", reason: "Invalid", message: "x is invalid", details }, { status: 422 });
  const error = await kubeError(client.request({ method: "GET", path: MAPS }));
  assert.deepEqual([error.code, error.reason, error.details], [422, "Invalid", details]);
  assert.equal(error.message, `Cannot GET ${MAPS}: 422 Invalid: x is invalid`);
});

Deno.test("request() throws a KubeError with the text when something in between answers", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  api.intercept = () => new Response("<html>bad gateway</html>", { status: 502 });
  const error = await kubeError(client.request({ method: "POST", path: MAPS, body: {} }));
  assert.deepEqual([error.code, error.reason], [502, "Unknown"]);
  assert.match(error.message, /bad gateway/);
});

Deno.test("request() waits as Retry-After says when the answer is 429", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  let refusals = 2;
  api.intercept = () =>
    refusals-- > 0 ? statusAnswer(429, "TooManyRequests", { "retry-after": "0" }) : undefined;
  await client.request({ method: "POST", path: MAPS, body: { metadata: { name: "x" } } });
  assert.equal(api.requests.length, 3);
});

Deno.test("request() gives up at once when Retry-After is beyond the deadline", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  api.intercept = () => statusAnswer(429, "TooManyRequests", { "retry-after": "60" });
  const started = performance.now();
  const error = await kubeError(client.request({ method: "GET", path: MAPS, timeoutMs: 5_000 }));
  assert.equal(error.code, 429);
  assert(performance.now() - started < 4_000);
  assert.equal(api.requests.length, 1);
});

Deno.test("request() is bounded when 429 never ends", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  api.intercept = () => statusAnswer(429, "TooManyRequests", { "retry-after": "0" });
  assert.equal((await kubeError(client.request({ method: "GET", path: MAPS }))).code, 429);
  assert.equal(api.requests.length, 5);
});

Deno.test("request() repeats a read but not a write when the answer is 503", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection, { random: () => 0 });
  let refusals = 1;
  api.intercept = () => refusals-- > 0 ? statusAnswer(503, "ServiceUnavailable") : undefined;
  await client.request({ method: "GET", path: MAPS });
  refusals = 1;
  assert.equal((await kubeError(client.request({ method: "POST", path: MAPS, body: {} }))).code, 503);
});

Deno.test("request() throws Timeout when the server is silent, before or within the answer", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  const release = Promise.withResolvers<undefined>();
  api.intercept = () => release.promise;
  const before = await kubeError(client.request({ method: "GET", path: MAPS, timeoutMs: 50 }));
  assert.deepEqual([before.code, before.reason], [0, "Timeout"]);
  assert.match(before.message, /gave no answer within 50 ms/);
  release.resolve(undefined);
  api.intercept = () =>
    new Response(new ReadableStream({ start: (c) => c.enqueue(new TextEncoder().encode("{")) }));
  const within = await kubeError(client.request({ method: "GET", path: MAPS, timeoutMs: 50 }));
  assert.equal(within.reason, "Timeout");
});

Deno.test("request() throws the signal's reason when its caller aborts", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  const release = Promise.withResolvers<undefined>();
  const controller = new AbortController();
  api.intercept = () => {
    controller.abort(new RangeError("enough"));
    return release.promise;
  };
  await assert.rejects(client.request({ method: "GET", path: MAPS, signal: controller.signal }), RangeError);
  release.resolve(undefined);
});

Deno.test("request() repeats a read but not a write when the connection is cut", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let seen = 0;
  const serving = (async () => {
    for await (const connection of listener) {
      const buffer = new Uint8Array(4096);
      await connection.read(buffer);
      seen++;
      connection.close();
    }
  })();
  using client = createKubeClient(connectionTo(listener), { random: () => 0 });
  const read = await kubeError(client.request({ method: "GET", path: MAPS }));
  assert.deepEqual([read.code, read.reason], [0, "Unreachable"]);
  assert.equal(seen, 3);
  const write = await kubeError(client.request({ method: "POST", path: MAPS, body: {} }));
  assert.equal(write.reason, "Unreachable");
  assert.equal(seen, 4);
  listener.close();
  await serving;
});

Deno.test("request() asks for fresh credentials once when it gets 401", async () => {
  await using api = startLoopbackApiServer();
  const asked: boolean[] = [];
  let token = "old";
  using client = createKubeClient({
    ...api.connection,
    credentials: ({ fresh = false } = {}) => {
      asked.push(fresh);
      if (fresh) token = "new";
      return Promise.resolve({ headers: { authorization: `Bearer ${token}` }, tls: {} });
    },
  });
  api.intercept = ({ headers }) =>
    headers.get("authorization") === "Bearer new" ? undefined : statusAnswer(401, "Unauthorized");
  await client.request({ method: "GET", path: MAPS });
  assert.deepEqual(asked, [false, true]);
  api.intercept = () => statusAnswer(401, "Unauthorized");
  assert.equal((await kubeError(client.request({ method: "GET", path: MAPS }))).code, 401);
  assert.equal(asked.length, 4);
});

Deno.test("request() tells each answer to the metrics hook", async () => {
  await using api = startLoopbackApiServer();
  const told: [string, number][] = [];
  using client = createKubeClient(api.connection, {
    onAnswer: ({ method, code }) => told.push([method, code]),
  });
  await client.request({ method: "GET", path: MAPS });
  await kubeError(client.request({ method: "GET", path: `${MAPS}/none` }));
  assert.deepEqual(told, [["GET", 200], ["GET", 404]]);
});

Deno.test("stream() gives lines across chunks, and a last line without an end", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  const bytes = new TextEncoder().encode("one\ntwö\n\nthree");
  api.intercept = () =>
    new Response(
      new ReadableStream({
        start(controller) {
          for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
          controller.close();
        },
      }),
    );
  await using lines = await client.stream({ method: "GET", path: MAPS });
  assert.deepEqual(await Array.fromAsync(lines), ["one", "twö", "", "three"]);
});

Deno.test("stream() ends its connection when its reader leaves, and is not bound to its deadline", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  api.put(MAPS, { metadata: { name: "x", namespace: "a" } });
  {
    await using lines = await client.stream({
      method: "GET",
      path: MAPS,
      query: { watch: true },
      timeoutMs: 50,
    });
    let count = 0;
    setTimeout(() => api.put(MAPS, { metadata: { name: "y", namespace: "a" } }), 600);
    for await (const _line of lines) if (++count === 2) break;
    assert.equal(count, 2);
  }
  await eventually("the watch ended", () => api.watches() === 0);
});

Deno.test("stream() fails its reader when the connection is cut or its signal aborts", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  const watch = { method: "GET", path: MAPS, query: { watch: true } } as const;
  {
    await using lines = await client.stream(watch);
    const reading = Array.fromAsync(lines);
    await eventually("a watch", () => api.watches() === 1);
    api.cutWatches();
    await assert.rejects(reading);
  }
  const controller = new AbortController();
  await using lines = await client.stream({ ...watch, signal: controller.signal });
  const reading = Array.fromAsync(lines);
  await eventually("a watch", () => api.watches() === 1);
  controller.abort(new Error("enough"));
  await assert.rejects(reading);
  await eventually("the watch ended", () => api.watches() === 0);
});

Deno.test("stream() ends on abort also when everything else about its answer is garbage", async () => {
  // In a process of its own, where the collector can be called.
  const code = `
    import { createKubeClient } from ${JSON.stringify(import.meta.resolve("./client.ts"))};
    import { startLoopbackApiServer } from ${JSON.stringify(import.meta.resolve("./loopback_apiserver.ts"))};
    const api = startLoopbackApiServer();
    const client = createKubeClient(api.connection);
    const controller = new AbortController();
    const lines = await client.stream({
      method: "GET", path: "/api/v1/pods", query: { watch: true }, signal: controller.signal,
    });
    const reading = Array.fromAsync(lines).catch((error) => error.message);
    for (let round = 0; round < 5; round++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    controller.abort(new Error("enough"));
    console.log(await reading);
    while (api.watches()) await new Promise((resolve) => setTimeout(resolve, 5));
    Deno.exit();`;
  const command = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", "--no-check", "--ext=ts", "--v8-flags=--expose-gc", "-"],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    signal: AbortSignal.timeout(20_000),
  });
  await using child = command.spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(code));
  await writer.close();
  const { stdout, stderr } = await child.output();
  assert.equal(new TextDecoder().decode(stdout), "enough\n", new TextDecoder().decode(stderr));
});

Deno.test("createKubeClient() keeps one connection over calls, and none of 300 streams", async () => {
  await using api = startLoopbackApiServer();
  using client = createKubeClient(api.connection);
  api.put(MAPS, { metadata: { name: "x", namespace: "a" } });
  for (let round = 0; round < 300; round++) {
    await using lines = await client.stream({ method: "GET", path: MAPS, query: { watch: true } });
    for await (const _line of lines) break;
  }
  await eventually("all watches ended", () => api.watches() === 0);
  api.requests.length = 0;
  for (let round = 0; round < 100; round++) await client.request({ method: "GET", path: MAPS });
  assert.equal(new Set(api.requests.map(({ port }) => port)).size, 1);
  await eventually("no sockets are left", async () => await api.sockets() <= 4);
});
