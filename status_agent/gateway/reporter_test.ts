import assert from "node:assert/strict";
import type { KubeClient, KubeRequest } from "../../src/kube/client.ts";
import { silentLog } from "../../src/process/log.ts";
import { manualClock } from "../../src/process/manual_clock.ts";
import { daemonState, tunnelState } from "./fixture.ts";
import { startReporter } from "./reporter.ts";
import type { Snapshot } from "./status.ts";

/** An API server that refuses as long as it is told to, and keeps what it is sent. */
function recorder() {
  const requests: KubeRequest[] = [];
  const state = { refuse: false };
  const client: KubeClient = {
    // deno-lint-ignore require-await -- a refusal has to be a rejection
    async request<T>(request: KubeRequest): Promise<T> {
      requests.push(request);
      if (state.refuse) throw new Error("Cannot reach the API server");
      return { metadata: { uid: "u1" } } as T;
    },
    stream: () => Promise.reject(new Error("Cannot stream in this test")),
  };
  const patches = () => requests.filter(({ method }) => method === "PATCH");
  const events = () => requests.filter(({ path }) => path.includes("/events"));
  return { client, patches, events, state };
}

function snapshot(changes: Parameters<typeof tunnelState>[0] = {}): Snapshot {
  return { daemon: daemonState(tunnelState(changes)), driver: "xfrm", problems: [], podName: "acme-1" };
}

async function withReporter(
  use: (
    world: ReturnType<typeof recorder> & {
      clock: ReturnType<typeof manualClock>;
      report: (snapshot: Snapshot) => void;
    },
  ) => Promise<void>,
): Promise<void> {
  const life = new AbortController();
  const clock = manualClock();
  const world = recorder();
  const gateway = { name: "acme", namespace: "tenant" };
  const { report, done } = startReporter({
    client: world.client,
    gateway,
    podName: "acme-1",
    log: silentLog,
    clock,
    signal: life.signal,
  });
  try {
    await use({ ...world, clock, report });
  } finally {
    life.abort();
    await done;
  }
}

Deno.test("startReporter() writes by server-side apply on the status, as its own field manager", () =>
  withReporter(async ({ clock, report, patches }) => {
    await clock.advance(0);
    assert.equal(patches().length, 0);
    report(snapshot());
    await clock.advance(0);
    const [first] = patches();
    assert.equal(first?.path, "/apis/ipsec.bnerd.net/v1alpha1/namespaces/tenant/ipsecgateways/acme/status");
    assert.equal(first.contentType, "application/apply-patch+yaml");
    assert.equal(first.query?.fieldManager, "ipsec-status-agent");
  }));

Deno.test("startReporter() writes at once when more than byte counts changed, else once a minute", () =>
  withReporter(async ({ clock, report, patches }) => {
    report(snapshot());
    await clock.advance(1_000);
    const children = [{
      name: "net",
      state: "ESTABLISHED" as const,
      bytesIn: 99,
      bytesOut: 99,
      duplicates: 0,
    }];
    report(snapshot({ children }));
    await clock.advance(58_000);
    assert.equal(patches().length, 1);
    await clock.advance(2_000);
    assert.equal(patches().length, 2);
    report(snapshot({ state: "DOWN" }));
    await clock.advance(0);
    assert.equal(patches().length, 3);
  }));

Deno.test("startReporter() tries again with growing pauses while the API server refuses, and tells the newest", () =>
  withReporter(async ({ clock, report, patches, state }) => {
    state.refuse = true;
    report(snapshot());
    await clock.advance(10_000);
    const failed = patches().length;
    assert.ok(failed >= 3 && failed <= 5, `${failed} attempts in 10 s`);
    report(snapshot({ state: "DOWN" }));
    state.refuse = false;
    await clock.advance(30_000);
    assert.match(JSON.stringify(patches().at(-1)?.body), /"state":"DOWN"/);
    assert.equal(patches().length, failed + 1);
  }));

Deno.test("startReporter() says at the object that a tunnel came up, and that it went down", () =>
  withReporter(async ({ clock, report, events }) => {
    report(snapshot());
    await clock.advance(0);
    report(snapshot({ state: "DOWN", lastError: "no answer" }));
    await clock.advance(0);
    const bodies = events().map(({ body }) => body as { reason: string; regarding: { uid: string } });
    assert.deepEqual(bodies.map(({ reason }) => reason), ["TunnelUp", "TunnelDown"]);
    assert.equal(bodies[0]?.regarding.uid, "u1");
  }));
