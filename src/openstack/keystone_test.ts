import assert from "node:assert/strict";
import { failure, networks, startCloudDouble } from "./cloud_double.ts";
import { endpointsOf } from "./keystone.ts";

Deno.test("OpenStackClient.request() asks Keystone once for many calls at once", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  await Promise.all(Array.from({ length: 10 }, () => networks(os)));
  assert.equal(double.seen(/auth\/tokens/).length, 1);
  assert.equal(await os.projectID(), "p");
});

Deno.test("OpenStackClient.request() renews the token before it expires", async () => {
  let now = 1_000_000_000_000;
  await using double = startCloudDouble(() => now);
  await using os = double.client();
  await networks(os);
  now += 3_200_000;
  await networks(os);
  assert.equal(double.seen(/auth\/tokens/).length, 1);
  now += 150_000;
  await Promise.all([networks(os), networks(os)]);
  assert.equal(double.seen(/auth\/tokens/).length, 2, "with 250 s left");
});

Deno.test("OpenStackClient.request() counts a token's life by its own clock when Keystone's is hours away", async () => {
  for (const hours of [-5, 5]) {
    let now = 1_000_000_000_000;
    await using double = startCloudDouble(() => now);
    double.clock = () => now + hours * 3_600_000;
    await using os = double.client();
    await networks(os);
    now += 3_200_000;
    await networks(os);
    assert.equal(double.seen(/auth\/tokens/).length, 1);
    now += 150_000;
    await networks(os);
    assert.equal(double.seen(/auth\/tokens/).length, 2);
  }
});

Deno.test("OpenStackClient.request() goes on with a token that is still good when Keystone does not answer", async () => {
  let now = 1_000_000_000_000;
  await using double = startCloudDouble(() => now);
  await using os = double.client();
  await networks(os);
  now += 3_500_000;
  double.fail({ match: /auth\/tokens/, status: 503, times: 99 });
  await networks(os);
  await networks(os);
  assert.equal(double.seen(/auth\/tokens/).length, 2, "asked once, then left in peace");
  now += 100_000;
  assert.equal((await failure(networks(os))).status, 503);
});

Deno.test("OpenStackClient.request() authenticates once again after 401, whatever number of calls got it", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  await networks(os);
  double.tokens.clear();
  await Promise.all(Array.from({ length: 10 }, () => networks(os)));
  assert.equal(double.seen(/auth\/tokens/).length, 2);
});

Deno.test("OpenStackClient.request() gives up at the second 401", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  double.fail({ match: /networks/, status: 401, times: 99 });
  assert.equal((await failure(networks(os))).status, 401);
  assert.equal(double.seen(/networks/).length, 2);
});

Deno.test("OpenStackClient.request() does not ask again at once when Keystone refused", async () => {
  let now = 1_000_000_000_000;
  await using double = startCloudDouble(() => now);
  await using os = double.client();
  double.fail({
    match: /auth\/tokens/,
    status: 401,
    body: { error: { code: 401, title: "Unauthorized", message: "no" } },
    times: 2,
  });
  const refused = await failure(networks(os));
  assert.equal(refused.service, "identity");
  assert.equal(refused.type, "Unauthorized");
  await failure(networks(os));
  assert.equal(double.seen(/auth\/tokens/).length, 1);
  now += 11_000;
  await failure(networks(os));
  now += 11_000;
  await networks(os);
});

Deno.test("OpenStackClient.request() asks a silent Keystone again after pauses that grow", async () => {
  let now = 1_000_000_000_000;
  await using double = startCloudDouble(() => now);
  await using os = double.client({ readTimeoutMs: 50 });
  double.fail({ match: /auth\/tokens/, hang: true, times: 2 });
  for (const pauseMs of [10_000, 20_000]) {
    assert.equal((await failure(networks(os))).type, "Timeout");
    assert.equal((await failure(networks(os))).retryAfterMs, pauseMs);
    now += pauseMs;
  }
  assert.equal(double.seen(/auth\/tokens/).length, 2);
  await networks(os);
});

Deno.test("OpenStackClient.request() lets the others have the token when the caller that asked first gives up", async () => {
  await using double = startCloudDouble();
  await using os = double.client();
  const controller = new AbortController();
  const first = networks(os, { signal: controller.signal });
  const second = networks(os);
  const reason = new Error("enough");
  controller.abort(reason);
  await assert.rejects(first, (error) => error === reason);
  assert.equal((await second).status, 200);
  assert.equal(double.seen(/auth\/tokens/).length, 1);
});

Deno.test("endpointsOf() matches type, interface and region, and cuts Neutron's version", () => {
  const catalog = [{
    type: "network",
    endpoints: [
      { interface: "public", region: "Two", url: "http://two" },
      { interface: "internalURL", region_id: "One", url: "http://inside:9696/v2.0/" },
      { interface: "public", region: "One", url: "http://one/" },
    ],
  }];
  const network = (options: { interface: "public" | "internal"; region?: string }) =>
    endpointsOf(catalog, { authURL: "http://k/v3", ...options }).get("network");
  assert.equal(network({ interface: "public" }), "http://two");
  assert.equal(network({ interface: "public", region: "One" }), "http://one");
  assert.equal(network({ interface: "internal", region: "One" }), "http://inside:9696");
  assert.equal(network({ interface: "public", region: "Three" }), undefined);
});
