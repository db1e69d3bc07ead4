import assert from "node:assert/strict";
import { manualClock } from "../process/manual_clock.ts";
import { createKubeClient } from "./client.ts";
import { createEventRecorder, type EventRecorderOptions, type EventText } from "./events.ts";
import type { KubeEvent } from "./kinds.ts";
import { startLoopbackApiServer, statusAnswer } from "./loopback_apiserver.ts";

const gateway = {
  apiVersion: "example.net/v1",
  kind: "Gateway",
  metadata: { namespace: "a", name: "gw", uid: "u-1", resourceVersion: "7" },
};
const failed: EventText = { type: "Warning", reason: "Failed", action: "Attach", note: "no node" };

function world(options: Partial<EventRecorderOptions> = {}) {
  const api = startLoopbackApiServer();
  const client = createKubeClient(api.connection);
  const clock = manualClock();
  const recorder = createEventRecorder(client, {
    controller: "example.net/op",
    instance: "pod-1",
    clock,
    ...options,
  });
  return {
    api,
    clock,
    recorder,
    /** The writes so far, once none is under way. */
    async writes() {
      await recorder.idle();
      return api.requests.map(({ method, body }) => ({ method, body: body as KubeEvent }));
    },
    async [Symbol.asyncDispose]() {
      await recorder[Symbol.asyncDispose]();
      client[Symbol.dispose]();
      await api[Symbol.asyncDispose]();
    },
  };
}

Deno.test("event() writes an Event of events.k8s.io/v1 beside its object", async () => {
  await using at = world();
  at.recorder.event(gateway, failed);
  const [write] = await at.writes();
  const { metadata, ...rest } = write!.body;
  assert.equal(at.api.requests[0]?.path, "/apis/events.k8s.io/v1/namespaces/a/events");
  assert.match(metadata?.name ?? "", /^gw\.[0-9a-f]{12}$/);
  assert.deepEqual(rest, {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    eventTime: "2026-01-01T00:00:00.000000Z",
    reportingController: "example.net/op",
    reportingInstance: "pod-1",
    action: "Attach",
    reason: "Failed",
    type: "Warning",
    note: "no node",
    regarding: {
      apiVersion: "example.net/v1",
      kind: "Gateway",
      namespace: "a",
      name: "gw",
      uid: "u-1",
      resourceVersion: "7",
    },
  });
});

Deno.test("event() counts repeats and writes them at most once a minute", async () => {
  await using at = world();
  for (let second = 0; second < 150; second++) {
    at.recorder.event(gateway, failed);
    await at.recorder.idle();
    await at.clock.advance(1_000);
  }
  const writes = await at.writes();
  assert.deepEqual(writes.map(({ method, body }) => [method, body.series?.count]), [
    ["POST", undefined],
    ["PATCH", 60],
    ["PATCH", 120],
  ]);
  assert.equal(writes[1]?.body.series?.lastObservedTime, "2026-01-01T00:00:59.000000Z");
});

Deno.test("event() begins a new Event after six quiet minutes", async () => {
  await using at = world();
  at.recorder.event(gateway, failed);
  await at.writes();
  await at.clock.advance(7 * 60_000);
  assert.equal(at.clock.pending(), 0);
  at.recorder.event(gateway, failed);
  assert.deepEqual((await at.writes()).map(({ method }) => method), ["POST", "POST"]);
});

Deno.test("event() drops notes that differ all the time", async () => {
  await using at = world();
  for (let n = 0; n < 50; n++) at.recorder.event(gateway, { ...failed, note: `attempt ${n}` });
  at.recorder.event(gateway, { ...failed, reason: "Other" });
  assert.equal((await at.writes()).length, 6);
  await at.clock.advance(60_000);
  at.recorder.event(gateway, { ...failed, note: "later" });
  assert.equal((await at.writes()).length, 7);
});

Deno.test("event() writes anew what the API server has forgotten", async () => {
  await using at = world();
  at.recorder.event(gateway, failed);
  const [first] = await at.writes();
  at.api.remove(`/apis/events.k8s.io/v1/namespaces/a/events/${first!.body.metadata?.name}`);
  at.recorder.event(gateway, failed);
  await at.clock.advance(60_000);
  const writes = await at.writes();
  assert.deepEqual(writes.map(({ method }) => method), ["POST", "PATCH", "POST"]);
  assert.equal(writes[2]?.body.series?.count, 2);
});

Deno.test("event() never fails its caller, and cuts a note at the API's limit", async () => {
  await using at = world();
  at.api.intercept = () => statusAnswer(403, "Forbidden");
  at.recorder.event({}, { ...failed, note: "ö".repeat(2000) });
  const [write] = await at.writes();
  const bytes = new TextEncoder().encode(write!.body.note).length;
  assert(bytes <= 1024 && bytes > 1000, `${bytes} bytes`);
  assert.match(write!.body.note, /^ö+…$/);
  assert.equal(write!.body.metadata?.namespace, "default");
});
