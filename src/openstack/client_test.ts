import assert from "node:assert/strict";
import { failure, networks, startCloudDouble } from "./cloud_double.ts";
import type { OpenStack, SeenRequest } from "./contract.ts";
import { isQuota, OpenStackError } from "./errors.ts";
import { retryAfter } from "./http.ts";

function createGroup(os: OpenStack, options: { timeoutMs?: number } = {}) {
  const body = { security_group: { name: "g" } };
  return os.request({ service: "network", method: "POST", path: "/v2.0/security-groups", body, ...options });
}

Deno.test("OpenStackClient.request() tells by `ambiguous` whether a write may have been done", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  await networks(os);
  const groups = /POST .*security-groups/;
  const cases = [
    { fault: { cut: "after" as const }, ambiguous: true, status: 0, type: "ConnectionFailed" },
    { fault: { hang: true }, ambiguous: true, status: 0, type: "Timeout" },
    { fault: { statusAfter: 500 }, ambiguous: true, status: 500, type: "" },
    { fault: { status: 502, body: "<html>" }, ambiguous: true, status: 502, type: "" },
    {
      fault: { status: 409, body: { NeutronError: { type: "OverQuota", message: "m" } } },
      ambiguous: false,
      status: 409,
      type: "OverQuota",
    },
    { fault: { status: 501 }, ambiguous: false, status: 501, type: "" },
  ];
  for (const { fault, ...expected } of cases) {
    double.fail({ match: groups, ...fault });
    const error = await failure(createGroup(os, { timeoutMs: 500 }));
    assert.deepEqual({ ambiguous: error.ambiguous, status: error.status, type: error.type }, expected);
  }
  double.fail({ match: /GET .*networks/, status: 500 });
  assert.equal((await failure(networks(os))).ambiguous, false, "a read changes nothing");
  assert.deepEqual(double.unmet(), []);
});

Deno.test("OpenStackClient.request() says what Neutron, Nova and a load balancer say", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  const say = async (body: unknown, status = 400) => {
    double.fail({ match: /networks/, status, body });
    return await failure(networks(os));
  };
  assert.match(
    (await say({ NeutronError: { type: "T", message: "a\n  b", detail: "" } })).message,
    /answered 400 T: a b$/,
  );
  assert.equal(
    (await say({ conflictingRequest: { code: 409, message: "in use" } }, 409)).type,
    "conflictingRequest",
  );
  assert.match((await say({ error_code: "APIGW.0101", error_msg: "no such API" }, 404)).message, /404/);
  assert.match((await say({ NeutronError: "plain text" })).message, /plain text/);
  assert.match((await say(undefined, 503)).message, /answered 503$/);
});

Deno.test("OpenStackClient.request() leaves a service in peace for as long as Retry-After says", async () => {
  let now = 1_000_000_000_000;
  await using double = startCloudDouble(() => now);
  await using os = double.client();
  double.fail({ match: /networks/, status: 429, headers: { "retry-after": "7" } });
  assert.equal((await failure(networks(os))).retryAfterMs, 7_000);
  now += 3_000;
  const held = await failure(networks(os));
  assert.deepEqual([held.type, held.retryAfterMs, held.ambiguous], ["", 4_000, false]);
  assert.equal(double.seen(/networks/).length, 1);
  await os.request({ service: "compute", method: "GET", path: "/servers/detail" });
  now += 4_000;
  await networks(os);
});

Deno.test("OpenStackClient.request() asks a silent service again after pauses that grow, and at once when it has answered", async () => {
  let now = 1_000_000_000_000;
  await using double = startCloudDouble(() => now);
  await using os = double.client({ readTimeoutMs: 50 });
  await using other = double.client();
  await networks(os);
  double.fail({ match: /networks/, hang: true, times: 3 });
  const asked = () => double.seen(/networks/).length;
  for (const pauseMs of [10_000, 20_000, 40_000]) {
    const before = asked();
    assert.equal((await failure(networks(os))).type, "Timeout");
    const held = await failure(networks(os));
    assert.deepEqual([held.type, held.retryAfterMs, held.ambiguous], ["Timeout", pauseMs, false]);
    now += pauseMs - 1;
    await failure(networks(os));
    assert.equal(asked() - before, 1);
    now += 1;
  }
  await networks(os);
  await networks(other);
  double.fail({ match: /networks/, hang: true });
  assert.equal((await failure(networks(os))).retryAfterMs, undefined);
  assert.equal((await failure(networks(os))).retryAfterMs, 10_000, "the pauses begin anew");
  now += 10_000;
  double.fail({ match: /POST .*security-groups/, hang: true });
  await failure(createGroup(os, { timeoutMs: 50 }));
  await networks(os);
});

Deno.test("retryAfter() reads seconds and dates, and nothing from nonsense", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");
  assert.equal(retryAfter("3", now), 3_000);
  assert.equal(retryAfter("Thu, 01 Jan 2026 00:00:10 GMT", now), 10_000);
  assert.equal(retryAfter("Thu, 01 Jan 2020 00:00:10 GMT", now), 0);
  assert.equal(retryAfter("99999", now), 300_000);
  assert.equal(retryAfter("soon", now), undefined);
  assert.equal(retryAfter(null, now), undefined);
});

Deno.test("OpenStackClient.request() ends with the signal's reason when aborted", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  await networks(os);
  double.fail({ match: /networks/, hang: true });
  const controller = new AbortController();
  const pending = networks(os, { signal: controller.signal });
  const reason = new Error("enough");
  controller.abort(reason);
  await assert.rejects(pending, (error) => error === reason);
});

Deno.test("OpenStackClient.request() reports every call to onRequest", async () => {
  await using double = startCloudDouble();
  const seen: SeenRequest[] = [];
  await using os = double.client({ onRequest: (one) => seen.push(one) });
  await networks(os);
  double.fail({ match: /POST .*security-groups/, hang: true });
  await failure(createGroup(os, { timeoutMs: 100 }));
  assert.deepEqual(seen.map(({ service, method, code }) => `${service} ${method} ${code}`), [
    "identity POST 201",
    "network GET 200",
    "network POST timeout",
  ]);
  assert.ok(seen.every(({ seconds }) => seconds >= 0));
});

Deno.test("OpenStackClient.request() sends a write once when a kept connection is closed without an answer", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  await networks(os);
  let posts = 0;
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serve = async (conn: Deno.TcpConn) => {
    const buffer = new Uint8Array(65536);
    for (let read = await conn.read(buffer); read; read = await conn.read(buffer)) {
      const text = new TextDecoder().decode(buffer.subarray(0, read));
      if (text.startsWith("POST")) {
        posts++;
        break;
      }
      if (!text.startsWith("GET")) continue;
      await conn.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"));
    }
    conn.close();
  };
  const conns: Deno.TcpConn[] = [];
  const served: Promise<void>[] = [];
  const accepting = (async () => {
    for await (const conn of listener) {
      conns.push(conn);
      served.push(serve(conn).catch(() => {}));
    }
  })();
  const port = (listener.addr as Deno.NetAddr).port;
  const cutting = double.client({
    fetch: (input: string | URL | Request, init?: RequestInit) => {
      const url = new URL(String(input));
      if (!url.pathname.startsWith("/identity")) url.port = String(port);
      return fetch(url, init);
    },
  });
  await networks(cutting);
  const error = await failure(createGroup(cutting));
  assert.ok(error.ambiguous);
  assert.equal(posts, 1);
  await cutting[Symbol.asyncDispose]();
  listener.close();
  await accepting;
  // The connection that was kept for reading is ended from here.
  for (const conn of conns) {
    try {
      conn.close();
    } catch { /* closed after the POST */ }
  }
  await Promise.all(served);
});

Deno.test("OpenStackClient.request() refuses a success that is no JSON", async () => {
  await using double = startCloudDouble();
  await using os = double.client({
    fetch: async (input: string | URL | Request, init?: RequestInit) => {
      if (!String(input).endsWith("/networks")) return await fetch(input, init);
      return new Response("<html>", { status: 200 });
    },
  });
  const error = await failure(networks(os));
  assert.equal(error.type, "UnreadableAnswer");
});

Deno.test("OpenStackError never holds the token or the password", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  await networks(os);
  const [token] = double.tokens;
  double.fail({ match: /auth\/tokens/, status: 401 });
  double.fail({ match: /networks/, status: 401 });
  const error = await failure(networks(os));
  for (const text of [error.message, error.stack ?? "", JSON.stringify(error), Deno.inspect(error)]) {
    assert.ok(!text.includes(token!) && !text.includes("sesame"), text);
  }
});

Deno.test("isQuota() knows Neutron's and Nova's ways to say it", () => {
  const error = (service: "network" | "compute", status: number, type: string, message = "") =>
    new OpenStackError(message, { service, method: "POST", path: "/", status, type, ambiguous: false });
  assert.ok(isQuota(error("network", 409, "OverQuota")));
  assert.ok(isQuota(error("compute", 413, "overLimit")));
  assert.ok(isQuota(error("compute", 403, "forbidden", "Maximum number of ports exceeded")));
  assert.ok(!isQuota(error("compute", 403, "forbidden", "Policy doesn't allow it")));
  assert.ok(!isQuota(error("network", 409, "SecurityGroupInUse")));
  assert.ok(!isQuota(new Error("OverQuota")));
});
