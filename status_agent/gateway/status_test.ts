import assert from "node:assert/strict";
import { daemonState, tunnelState } from "./fixture.ts";
import { type Snapshot, statusPatch, substance, transitions } from "./status.ts";

function snapshot(changes: Partial<Snapshot> = {}): Snapshot {
  return {
    daemon: daemonState(tunnelState()),
    driver: "libipsec",
    problems: [],
    podName: "acme-1",
    ...changes,
  };
}

Deno.test("statusPatch() holds exactly the fields that are the agent's", () => {
  const now = Date.UTC(2026, 0, 2, 3, 5);
  assert.deepEqual(statusPatch(snapshot(), { name: "acme", namespace: "tenant", now }), {
    apiVersion: "ipsec.bnerd.net/v1alpha1",
    kind: "IPsecGateway",
    metadata: { name: "acme", namespace: "tenant" },
    status: {
      agent: { podName: "acme-1", lastHeartbeatTime: "2026-01-02T03:05:00Z" },
      dataPlane: "libipsec",
      tunnels: [{
        name: "branch",
        state: "ESTABLISHED",
        ikeState: "ESTABLISHED",
        since: "2026-01-02T03:04:05Z",
        peerAddress: "203.0.113.250",
        children: [{ name: "net", state: "ESTABLISHED", bytesIn: 1, bytesOut: 2 }],
      }],
    },
  });
});

Deno.test("statusPatch() tells what is wrong with the pod and with a tunnel", () => {
  const daemon = daemonState(tunnelState({ state: "DOWN", lastError: "The peer does not answer" }));
  const { status } = statusPatch(snapshot({ daemon, problems: ["net1 is missing"], driver: undefined }), {
    name: "acme",
    namespace: "tenant",
    now: 0,
  });
  assert.deepEqual(status.agent?.problems, ["net1 is missing"]);
  assert.equal(status.tunnels?.[0]?.lastError, "The peer does not answer");
  assert.ok(!("dataPlane" in status));
});

Deno.test("statusPatch() cuts the problems when there are more than the CRD takes", () => {
  const problems = Array.from({ length: 20 }, (_, index) => `problem ${index}`);
  const { status } = statusPatch(snapshot({ problems }), { name: "acme", namespace: "tenant", now: 0 });
  assert.deepEqual(status.agent?.problems, problems.slice(0, 16));
});

Deno.test("substance() does not change with byte counts, and changes with everything else", () => {
  const before = substance(snapshot());
  const children = [{ name: "net", state: "ESTABLISHED" as const, bytesIn: 9, bytesOut: 9, duplicates: 0 }];
  assert.equal(substance(snapshot({ daemon: daemonState(tunnelState({ children })) })), before);
  for (
    const other of [
      snapshot({ daemon: daemonState(tunnelState({ state: "DOWN" })) }),
      snapshot({ daemon: daemonState(tunnelState({ lastError: "x" })) }),
      snapshot({ daemon: daemonState() }),
      snapshot({ problems: ["x"] }),
      snapshot({ driver: "xfrm" }),
    ]
  ) assert.notEqual(substance(other), before);
});

Deno.test("transitions() tells when a tunnel comes up and goes down, once each", () => {
  const known = new Map<string, boolean>();
  const reasons = (...tunnels: Parameters<typeof daemonState>) =>
    transitions(known, tunnels).map(({ reason, note }) => `${reason}: ${note}`);
  assert.deepEqual(reasons(tunnelState({ state: "CONNECTING" })), []);
  assert.deepEqual(reasons(tunnelState()), ["TunnelUp: Tunnel branch is up with 203.0.113.250"]);
  assert.deepEqual(reasons(tunnelState({ state: "REKEYING" })), []);
  assert.deepEqual(reasons(tunnelState({ state: "UNKNOWN" })), []);
  assert.deepEqual(reasons(tunnelState()), []);
  assert.deepEqual(reasons(tunnelState({ state: "DOWN", lastError: "no answer" })), [
    "TunnelDown: Tunnel branch is DOWN: no answer",
  ]);
  assert.deepEqual(reasons(tunnelState({ state: "CONNECTING" })), []);
  assert.deepEqual(reasons(), []);
  assert.equal(known.size, 0);
});
