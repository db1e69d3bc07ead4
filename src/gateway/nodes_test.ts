import assert from "node:assert/strict";
import type { Node } from "../kube/kinds.ts";
import { pickNode } from "./nodes.ts";

const NOW = Date.parse("2026-01-02T03:04:05Z");

function node(
  name: string,
  fields: {
    ready?: boolean;
    since?: number;
    labels?: Record<string, string>;
    taint?: string;
    cordoned?: boolean;
  } = {},
): Node {
  const { ready = true, since = NOW, labels = {}, taint, cordoned } = fields;
  return {
    metadata: { name, labels },
    spec: {
      ...(cordoned ? { unschedulable: true } : {}),
      ...(taint ? { taints: [{ key: taint, effect: "NoSchedule" }] } : {}),
    },
    status: {
      conditions: [{
        type: "Ready",
        status: ready ? "True" : "False",
        lastTransitionTime: new Date(since).toISOString(),
      }],
    },
  };
}

function pick(
  nodes: Node[],
  options: Partial<Parameters<typeof pickNode>[2]> = {},
  spec: Parameters<typeof pickNode>[1] = {},
) {
  const { node, why } = pickNode(nodes, spec, {
    current: undefined,
    running: true,
    load: new Map(),
    graceMs: 60_000,
    now: NOW,
    ...options,
  });
  return node?.metadata?.name ?? why;
}

Deno.test("pickNode() takes the node with the fewest gateways when none is current", () => {
  assert.equal(pick([node("a"), node("b")], { load: new Map([["a", 2], ["b", 1]]) }), "b");
});

Deno.test("pickNode() stays when the current node has been NotReady for less than the grace period", () => {
  assert.equal(pick([node("a", { ready: false, since: NOW - 59_000 }), node("b")], { current: "a" }), "a");
});

Deno.test("pickNode() leaves when the current node has been NotReady for the grace period", () => {
  assert.equal(pick([node("a", { ready: false, since: NOW - 60_000 }), node("b")], { current: "a" }), "b");
});

Deno.test("pickNode() stays on a cordoned or tainted node while the pod runs there, and leaves it after a drain", () => {
  for (const fields of [{ cordoned: true }, { taint: "maintenance" }]) {
    assert.equal(pick([node("a", fields), node("b")], { current: "a" }), "a");
    assert.equal(pick([node("a", fields), node("b")], { current: "a", running: false }), "b");
  }
});

Deno.test("pickNode() says how many nodes are Ready when none will do", () => {
  assert.match(
    String(pick([node("a", { ready: false }), node("b", { taint: "gpu" })])),
    /^of 2 nodes 1 are Ready/,
  );
});

Deno.test("pickNode() takes a tainted node when the taint is tolerated, and only with the wanted labels", () => {
  const nodes = [node("a"), node("b", { taint: "gpu", labels: { zone: "x" } })];
  const spec = { nodeSelector: { zone: "x" }, tolerations: [{ key: "gpu", operator: "Exists" as const }] };
  assert.equal(pick(nodes, {}, spec), "b");
});
