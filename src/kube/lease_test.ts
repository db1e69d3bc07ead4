import assert from "node:assert/strict";
import { systemClock } from "../process/clock.ts";
import { eventually } from "../process/eventually.ts";
import { createKubeClient } from "./client.ts";
import type { Lease } from "./kinds.ts";
import { type ElectionOptions, runElection } from "./lease.ts";
import { type LoopbackApiServer, startLoopbackApiServer } from "./loopback_apiserver.ts";

const COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/ops/leases";
const PATH = `${COLLECTION}/lock`;
/** The real times by ten; a lease's duration is stored in whole seconds. */
const TIMES = { leaseMs: 1_000, renewDeadlineMs: 800, retryMs: 50 };

function lease(api: LoopbackApiServer): NonNullable<Lease["spec"]> {
  return (api.read(PATH) as Lease | undefined)?.spec ?? {};
}

interface Elector extends AsyncDisposable {
  leads(): boolean;
  /** Times (monotonic) when leading began and ended. */
  readonly began: number[];
  readonly endedAt: number[];
  stop(): void;
  readonly result: Promise<"released" | "lost">;
}

/** One process of the election, which leads until it is told to stop. */
function elector(api: LoopbackApiServer, identity: string, options: Partial<ElectionOptions> = {}): Elector {
  const client = createKubeClient({
    ...api.connection,
    credentials: () => Promise.resolve({ headers: { authorization: `Bearer ${identity}` }, tls: {} }),
  });
  const controller = new AbortController();
  const began: number[] = [];
  const endedAt: number[] = [];
  const result = runElection(client, {
    ...TIMES,
    namespace: "ops",
    name: "lock",
    identity,
    signal: controller.signal,
    lead: async (signal) => {
      began.push(performance.now());
      if (!signal.aborted) {
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      }
      endedAt.push(performance.now());
    },
    ...options,
  });
  result.catch(() => {});
  return {
    leads: () => began.length > endedAt.length,
    began,
    endedAt,
    stop: () => controller.abort(),
    result,
    async [Symbol.asyncDispose]() {
      controller.abort();
      await result.catch(() => {});
      client[Symbol.dispose]();
    },
  };
}

Deno.test("runElection() lets one lead, and the other at once after a release", async () => {
  await using api = startLoopbackApiServer();
  await using a = elector(api, "a");
  await eventually("a leads", () => a.leads());
  await using b = elector(api, "b");
  await eventually(
    "b has looked",
    () => api.requests.some(({ headers }) => headers.get("authorization") === "Bearer b"),
  );
  assert.equal(b.leads(), false);
  assert.equal(lease(api).holderIdentity, "a");
  a.stop();
  assert.equal(await a.result, "released");
  const released = performance.now();
  await eventually("b leads", () => b.leads());
  assert(b.began[0]! - released < TIMES.leaseMs / 2);
  assert.deepEqual([lease(api).holderIdentity, lease(api).leaseTransitions], ["b", 1]);
});

Deno.test("runElection() renews while it leads, and tells its hook", async () => {
  await using api = startLoopbackApiServer();
  const told: boolean[] = [];
  await using a = elector(api, "a", { onChange: (leader) => told.push(leader) });
  await eventually("a leads", () => a.leads());
  const { renewTime, acquireTime } = lease(api);
  await eventually("a renewal", () => lease(api).renewTime !== renewTime);
  assert.equal(lease(api).acquireTime, acquireTime);
  assert.match(acquireTime ?? "", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  a.stop();
  await a.result;
  assert.deepEqual(told, [true, false]);
  assert.deepEqual([lease(api).holderIdentity, lease(api).leaseDurationSeconds], ["", 1]);
});

Deno.test("runElection() ends leading before another can begin when its renewals get no answer", async () => {
  await using api = startLoopbackApiServer();
  await using a = elector(api, "a");
  await eventually("a leads", () => a.leads());
  await using b = elector(api, "b");
  const never = Promise.withResolvers<undefined>();
  api.intercept = ({ headers }) => headers.get("authorization") === "Bearer a" ? never.promise : undefined;
  assert.equal(await a.result, "lost");
  assert.equal(b.leads(), false);
  await eventually("b leads", () => b.leads());
  assert(a.endedAt[0]! < b.began[0]!);
  never.resolve(undefined);
});

Deno.test("runElection() is lost at once when the lease went to another", async () => {
  await using api = startLoopbackApiServer();
  let told = 0;
  await using a = elector(api, "a", { onLost: () => told++ });
  await eventually("a leads", () => a.leads());
  const stolen = performance.now();
  api.put(
    COLLECTION,
    { metadata: { name: "lock" }, spec: { ...lease(api), holderIdentity: "thief" } } as Lease,
  );
  assert.equal(await a.result, "lost");
  assert(a.endedAt[0]! - stolen < TIMES.renewDeadlineMs);
  assert.equal(told, 1);
  assert.equal(lease(api).holderIdentity, "thief");
});

Deno.test("runElection() takes no lease that is renewed, whatever the wall clocks say", async () => {
  await using api = startLoopbackApiServer();
  const hour = 3_600_000;
  await using a = elector(api, "a", { clock: { ...systemClock, date: () => new Date(Date.now() - hour) } });
  await eventually("a leads", () => a.leads());
  await using b = elector(api, "b", { clock: { ...systemClock, date: () => new Date(Date.now() + hour) } });
  const asked = () =>
    api.requests.filter(({ headers }) => headers.get("authorization") === "Bearer b").length;
  // More looks than fit into a lease's time.
  await eventually("b has looked for longer than a lease", () => asked() > TIMES.leaseMs / TIMES.retryMs + 5);
  assert.deepEqual([a.leads(), b.leads()], [true, false]);
});

Deno.test("runElection() takes a lease that nobody renews only after its whole time", async () => {
  await using api = startLoopbackApiServer();
  const spec = { holderIdentity: "dead", leaseDurationSeconds: 1, renewTime: "2020-01-01T00:00:00.000000Z" };
  api.put(COLLECTION, { metadata: { name: "lock" }, spec } as Lease);
  const started = performance.now();
  await using a = elector(api, "a");
  await eventually("a leads", () => a.leads());
  assert(a.began[0]! - started >= 1_000);
});

Deno.test("runElection() releases and throws what the leader's work throws", async () => {
  await using api = startLoopbackApiServer();
  await using a = elector(api, "a", { lead: () => Promise.reject(new RangeError("broken")) });
  await assert.rejects(a.result, RangeError);
  assert.equal(lease(api).holderIdentity, "");
});

Deno.test("runElection() stops waiting on shutdown and leaves the lease alone", async () => {
  await using api = startLoopbackApiServer();
  await using a = elector(api, "a");
  await eventually("a leads", () => a.leads());
  await using b = elector(api, "b");
  b.stop();
  assert.equal(await b.result, "released");
  assert.equal(lease(api).holderIdentity, "a");
});
