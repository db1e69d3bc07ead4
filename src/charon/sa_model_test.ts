import assert from "node:assert/strict";
import { section, type ViciSection } from "../vici/message.ts";
import type { DesiredConnection } from "./desired.ts";
import { type Reading, readSas, readTunnels, type TunnelState, unknownTunnels } from "./sa_model.ts";

/** A configured connection with these children. */
function conn(name: string, ...children: string[]): DesiredConnection {
  return {
    name,
    message: new Map(),
    children: children.map((child) => ({ name: child, startAction: "start" })),
  };
}

/** One `list-sa` event. */
function ike(
  name: string,
  id: number,
  state: string,
  {
    children = [] as [string, number, string, Record<string, string>?][],
    tasks = [] as string[],
    host = "192.0.2.2",
  } = {},
): ViciSection {
  return section({
    [name]: {
      uniqueid: `${id}`,
      state,
      "remote-host": host,
      "local-host": "192.0.2.1",
      ...(tasks.length > 0 ? { "tasks-active": tasks } : {}),
      "child-sas": Object.fromEntries(children.map(([child, childId, childState, more]) => [
        `${child}-${childId}`,
        {
          name: child,
          uniqueid: `${childId}`,
          state: childState,
          "local-ts": ["10.0.0.0/24"],
          "remote-ts": ["10.1.0.0/24"],
          ...more,
        },
      ])),
    },
  });
}

function judge(
  connections: DesiredConnection[],
  events: ViciSection[],
  more: Partial<Reading> = {},
): TunnelState[] {
  return readTunnels({
    connections,
    sas: readSas(events),
    traps: new Set(),
    previous: [],
    now: 1000,
    errorOf: () => undefined,
    ...more,
  });
}

/** The states of the first tunnel: its own, its IKE_SA's, its children's. */
function states(...args: Parameters<typeof judge>): string {
  const [tunnel] = judge(...args);
  return [tunnel?.state, tunnel?.ikeState, ...(tunnel?.children.map((child) => child.state) ?? [])].join(" ");
}

const one = [conn("t", "c")];
const CASES: readonly (readonly [string, string, DesiredConnection[], ViciSection[]])[] = [
  ["there is no SA", "DOWN DOWN DOWN", one, []],
  ["IKE and child are up", "ESTABLISHED ESTABLISHED ESTABLISHED", one, [
    ike("t", 1, "ESTABLISHED", { children: [["c", 1, "INSTALLED"]] }),
  ]],
  ["IKE is up and the child is missing", "DOWN ESTABLISHED DOWN", one, [ike("t", 1, "ESTABLISHED")]],
  ["IKE is up and creates a child", "CONNECTING ESTABLISHED CONNECTING", one, [
    ike("t", 1, "ESTABLISHED", { tasks: ["CHILD_CREATE"] }),
  ]],
  ["IKE connects", "CONNECTING CONNECTING CONNECTING", one, [ike("t", 1, "CONNECTING")]],
  ["IKE is deleted", "DOWN DOWN DOWN", one, [ike("t", 1, "DELETING", { children: [["c", 1, "DELETING"]] })]],
  ["the child rekeys", "REKEYING ESTABLISHED REKEYING", one, [
    ike("t", 1, "ESTABLISHED", { children: [["c", 1, "REKEYING"]] }),
  ]],
  ["the child has been rekeyed", "ESTABLISHED ESTABLISHED ESTABLISHED", one, [
    ike("t", 1, "ESTABLISHED", { children: [["c", 1, "REKEYED"], ["c", 2, "INSTALLED"]] }),
  ]],
  ["IKE rekeys", "ESTABLISHED REKEYING ESTABLISHED", one, [
    ike("t", 1, "REKEYING", { children: [["c", 1, "INSTALLED"]] }),
  ]],
  ["IKE has been rekeyed", "ESTABLISHED ESTABLISHED ESTABLISHED", one, [
    ike("t", 1, "REKEYED"),
    ike("t", 2, "ESTABLISHED", { children: [["c", 1, "INSTALLED"]] }),
  ]],
  ["one of two children is missing", "DOWN ESTABLISHED ESTABLISHED DOWN", [conn("t", "c", "d")], [
    ike("t", 1, "ESTABLISHED", { children: [["c", 1, "INSTALLED"]] }),
  ]],
  ["the child is under another tunnel's IKE_SA", "ESTABLISHED ESTABLISHED ESTABLISHED", [
    conn("t", "c"),
    conn("u", "d"),
  ], [ike("u", 1, "ESTABLISHED", { children: [["c", 1, "INSTALLED"]] })]],
  ["another tunnel has a child of the same name", "DOWN DOWN DOWN", [conn("t", "c"), conn("u", "c")], [
    ike("u", 1, "ESTABLISHED", { children: [["c", 1, "INSTALLED"]] }),
  ]],
];
for (const [what, expected, connections, events] of CASES) {
  Deno.test(`readTunnels() gives ${expected} when ${what}`, () =>
    assert.equal(states(connections, events), expected));
}

Deno.test("readTunnels() gives ROUTED when there is only a trap, and ESTABLISHED when another child is up beside it", () => {
  assert.equal(states(one, [], { traps: new Set(["t/c"]) }), "ROUTED DOWN ROUTED");
  const up = [ike("t", 1, "ESTABLISHED", { children: [["d", 1, "INSTALLED"]] })];
  assert.equal(
    states([conn("t", "c", "d")], up, { traps: new Set(["t/c"]) }),
    "ESTABLISHED ESTABLISHED ROUTED ESTABLISHED",
  );
});

Deno.test("readTunnels() takes the bytes of the newest installed child and counts the others with its selectors", () => {
  const [tunnel] = judge(one, [
    ike("t", 1, "ESTABLISHED", {
      children: [["c", 3, "INSTALLED", { "bytes-in": "30", "bytes-out": "31" }], ["c", 4, "CREATED"]],
    }),
    ike("t", 2, "ESTABLISHED", {
      children: [["c", 1, "INSTALLED", { "bytes-in": "10" }], ["c", 2, "INSTALLED"]],
    }),
  ]);
  assert.deepEqual(tunnel?.children, [{
    name: "c",
    state: "ESTABLISHED",
    bytesIn: 30,
    bytesOut: 31,
    duplicates: 2,
  }]);
});

Deno.test("readTunnels() keeps `since` until the state changes, sorts, and names the peer's address", () => {
  const connections = [conn("u", "d"), conn("t", "c")];
  const first = judge(connections, []);
  assert.deepEqual(first.map(({ name, since }) => [name, since]), [["t", 1000], ["u", 1000]]);
  const next = judge(connections, [ike("u", 1, "ESTABLISHED", { children: [["d", 1, "INSTALLED"]] })], {
    now: 2000,
    previous: first,
  });
  assert.deepEqual(next.map(({ since, peerAddress }) => [since, peerAddress]), [[1000, undefined], [
    2000,
    "192.0.2.2",
  ]]);
  assert.equal(judge(one, [ike("t", 1, "CONNECTING", { host: "%any" })])[0]?.peerAddress, undefined);
});

Deno.test("unknownTunnels() gives every tunnel as UNKNOWN, since the daemon fell silent", () => {
  const before = judge(one, []);
  const [silent] = unknownTunnels(one, before, 2000);
  assert.deepEqual([silent?.state, silent?.ikeState, silent?.children[0]?.state, silent?.since], [
    "UNKNOWN",
    "UNKNOWN",
    "UNKNOWN",
    2000,
  ]);
  assert.equal(unknownTunnels(one, [silent!], 3000)[0]?.since, 2000);
});
