import assert from "node:assert/strict";
import { Proxy } from "./main.ts";

/** A service that says what it was asked and where it lives, and a proxy before it. */
function start() {
  const seen: string[] = [];
  const service: Deno.HttpServer<Deno.NetAddr> = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      seen.push(`${request.method} ${new URL(request.url).pathname} ${await request.text()}`);
      const here = `http://127.0.0.1:${service.addr.port}`;
      return Response.json({ next: `${here}/v2.0/ports?marker=x` }, {
        headers: { location: `${here}/other` },
      });
    },
  );
  const any = { hostname: "127.0.0.1", port: 0 };
  const proxy = new Proxy({
    listen: any,
    control: any,
    services: { network: `http://127.0.0.1:${service.addr.port}` },
  });
  return { seen, proxy, base: `http://127.0.0.1:${proxy.address.port}`, service };
}

/** Sends bytes as they are and returns everything that comes back until the end. */
async function raw(port: number, text: string): Promise<string> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(new TextEncoder().encode(text));
  let back = "";
  for await (const chunk of connection.readable.pipeThrough(new TextDecoderStream())) back += chunk;
  return back;
}

Deno.test("Proxy rewrites the services' addresses in bodies and headers", async () => {
  const { proxy, base, service } = start();
  await using _ = proxy;
  const response = await fetch(`${base}/network/v2.0/ports`);
  assert.deepEqual(await response.json(), { next: `${base}/network/v2.0/ports?marker=x` });
  assert.equal(response.headers.get("location"), `${base}/network/other`);
  assert.equal(
    (await fetch(`${base}/volume/v3`).then((each) => each.json())).error.includes("no service at volume"),
    true,
  );
  await service.shutdown();
});

Deno.test("Proxy reads chunked bodies and several requests of one connection", async () => {
  const { proxy, seen, service } = start();
  await using _ = proxy;
  const chunked =
    "POST /network/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  const plain = "PUT /network/b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\n\r\nxy";
  const back = await raw(proxy.address.port, chunked + plain);
  assert.deepEqual(seen, ["POST /a abcde", "PUT /b xy"]);
  assert.equal(back.match(/HTTP\/1\.1 200/g)?.length, 2);
  await service.shutdown();
});

Deno.test("Proxy cuts before, after and inside an answer, and counts", async () => {
  const { proxy, base, seen, service } = start();
  await using _ = proxy;
  const act = (kind: "cut-before" | "cut-after" | "truncate" | "broken-body") =>
    proxy.faults.replace([{ id: kind, match: { path: "." }, action: { kind } }]);
  act("cut-before");
  await assert.rejects(fetch(`${base}/network/1`), TypeError);
  act("cut-after");
  await assert.rejects(fetch(`${base}/network/2`), TypeError);
  act("truncate");
  await assert.rejects(fetch(`${base}/network/3`).then((response) => response.text()), TypeError);
  act("broken-body");
  await assert.rejects(fetch(`${base}/network/4`).then((response) => response.json()), SyntaxError);
  assert.deepEqual(seen, ["GET /2 ", "GET /3 ", "GET /4 "]);
  const control = `http://127.0.0.1:${proxy.controlAddress.port}`;
  const { counts, calls } = await fetch(`${control}/log`).then((response) => response.json());
  assert.equal(counts["GET /network/1"], 1);
  assert.deepEqual(calls.map((each: { status: number; rule: string }) => `${each.status} ${each.rule}`), [
    "0 cut-before",
    "0 cut-after",
    "200 truncate",
    "200 broken-body",
  ]);
  await service.shutdown();
});
