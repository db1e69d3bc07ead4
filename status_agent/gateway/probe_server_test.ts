import assert from "node:assert/strict";
import { serveProbes } from "./probe_server.ts";

const routes = {
  "/healthz": () => ({ status: 200, body: "ok\n" }) as const,
  "/readyz": () => Promise.resolve({ status: 503, body: "net1 is missing\n" } as const),
  "/metrics": () => ({ status: 200, body: "x 1\n".repeat(200_000) }) as const,
  "/broken": () => Promise.reject(new Error("Cannot look")),
};

/** Sends `request` as it is and gives everything that comes back. */
async function raw(port: number, request: string): Promise<string> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(new TextEncoder().encode(request));
  return await new Response(connection.readable).text();
}

Deno.test("serveProbes() answers a client as a web server does when it asks for each path", async () => {
  await using server = serveProbes({ address: "127.0.0.1:0", routes });
  const get = async (path: string, init: RequestInit = {}) => {
    const answer = await fetch(`http://127.0.0.1:${server.port}${path}`, init);
    return [answer.status, await answer.text()] as const;
  };
  assert.deepEqual(await get("/healthz"), [200, "ok\n"]);
  assert.deepEqual(await get("/healthz?verbose"), [200, "ok\n"]);
  assert.deepEqual(await get("/readyz"), [503, "net1 is missing\n"]);
  assert.equal((await get("/metrics"))[1].length, 800_000);
  assert.deepEqual(await get("/broken"), [500, "Cannot look\n"]);
  assert.deepEqual(await get("/elsewhere"), [404, "Not found\n"]);
  assert.deepEqual(await get("/healthz", { method: "HEAD" }), [200, ""]);
  assert.equal((await get("/healthz", { method: "POST", body: "x" }))[0], 405);
});

Deno.test("serveProbes() answers 400 when the request line is none, and ends a client that sends too much", async () => {
  await using server = serveProbes({ address: "127.0.0.1:0", routes });
  assert.match(await raw(server.port, "hello\r\n\r\n"), /^HTTP\/1\.1 400 /);
  assert.equal(await raw(server.port, "x".repeat(16 * 1024)), "");
  assert.match(await raw(server.port, "GET /healthz HTTP/1.0\r\n\r\n"), /^HTTP\/1\.1 200 OK\r\n.*ok\n$/s);
});

Deno.test("serveProbes() ends a client that never sends its request", async () => {
  await using server = serveProbes({ address: "127.0.0.1:0", routes, readMs: 20 });
  assert.equal(await raw(server.port, "GET /healthz"), "");
});
