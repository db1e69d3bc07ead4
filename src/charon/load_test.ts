import assert from "node:assert/strict";
import { startFakeCharon, SUCCESS } from "../vici/fake_charon.ts";
import { section, type ViciLiteral, type ViciSection } from "../vici/message.ts";
import { connectVici } from "../vici/session.ts";
import type { DesiredConnection } from "./desired.ts";
import { type ConnectionDigest, digestConnection, readDigests, writeDigests } from "./digests.ts";
import {
  applyLoad,
  type Doomed,
  type LoadPlan,
  orphansOf,
  planLoad,
  postponable,
  terminateDoomed,
} from "./load.ts";
import { readSas } from "./sa_model.ts";

function conn(name: string, message: ViciLiteral, keyId?: string): DesiredConnection {
  return { name, message: section(message), children: [], ...(keyId === undefined ? {} : { keyId }) };
}

const A: ViciLiteral = {
  version: "2",
  dpd_timeout: "10s",
  children: { c: { esp_proposals: ["aes128"] }, d: { mode: "tunnel" } },
};

/** The plan for going from `before` to `after`, both loaded as connection `a`. */
async function change(
  before: ViciLiteral | undefined,
  after: ViciLiteral,
  { loaded = true, failedKeys = new Map<string, string>() } = {},
): Promise<LoadPlan> {
  const desired = conn("a", after, "k");
  return planLoad({
    connections: [desired],
    digests: new Map([["a", await digestConnection(desired)]]),
    known: new Map(before === undefined ? [] : [["a", await digestConnection(conn("a", before))]]),
    loaded: new Set(loaded ? ["a"] : []),
    failedKeys,
  });
}

/** What of a plan's only step matters. */
async function step(...args: Parameters<typeof change>): Promise<unknown> {
  const { load } = await change(...args);
  return load[0] && [load[0].unloadFirst, load[0].staleIke, load[0].staleChildren];
}

Deno.test("planLoad() does nothing when the connection is as it was", async () => {
  assert.deepEqual(await change(A, A), { load: [], unload: [], blocked: new Map() });
});

Deno.test("planLoad() loads without declaring an SA stale when the daemon is new or was given something unknown", async () => {
  assert.deepEqual(await step(A, A, { loaded: false }), [false, false, []]);
  assert.deepEqual(await step(undefined, A), [false, false, []]);
});

Deno.test("planLoad() tells what a change makes stale", async () => {
  assert.deepEqual(await step(A, { ...A, version: "1" }), [false, true, []]);
  assert.deepEqual(
    await step(A, { ...A, children: { c: { esp_proposals: ["aes256"] }, d: { mode: "tunnel" } } }),
    [false, false, ["c"]],
  );
  assert.deepEqual(await step(A, { ...A, children: { c: { esp_proposals: ["aes128"] } } }), [false, false, [
    "d",
  ]]);
  assert.deepEqual(await step(A, { ...A, children: { ...A["children"] as ViciLiteral, e: {} } }), [
    false,
    false,
    [],
  ]);
});

Deno.test("planLoad() unloads first when charon would not see the change", async () => {
  assert.deepEqual(await step(A, { ...A, dpd_timeout: "20s" }), [true, true, []]);
  assert.deepEqual(await step(A, { ...A, dscp: "000001" }), [true, true, []]);
  assert.deepEqual(
    await step(A, { ...A, children: { renamed: { esp_proposals: ["aes128"] }, d: { mode: "tunnel" } } }),
    [true, false, ["c"]],
  );
});

Deno.test("planLoad() blocks a connection whose key is missing, and unloads what is not desired", async () => {
  assert.deepEqual(await change(undefined, A, { failedKeys: new Map([["k", "missing"]]) }), {
    load: [],
    unload: [],
    blocked: new Map([["a", "missing"]]),
  });
  assert.deepEqual(
    planLoad({
      connections: [],
      digests: new Map(),
      known: new Map(),
      loaded: new Set(["z", "b"]),
      failedKeys: new Map(),
    }).unload,
    ["b", "z"],
  );
});

const sa = (name: string, id: number, ...children: [string, number][]): ViciSection =>
  section({
    [name]: {
      uniqueid: `${id}`,
      state: "ESTABLISHED",
      "child-sas": Object.fromEntries(
        children.map((
          [child, n],
        ) => [`${child}-${n}`, { name: child, uniqueid: `${n}`, state: "INSTALLED" }]),
      ),
    },
  });

Deno.test("applyLoad() keeps the digest of a connection that charon refuses, goes on, and dooms what is stale", async () => {
  await using charon = await startFakeCharon(async (packet, client) => {
    if (packet.name === "list-sas") {
      for (const event of [sa("a", 7, ["c", 1], ["d", 2]), sa("b", 8)]) {
        await client.event("list-sa", event);
      }
    }
    return packet.name === "load-conn" && packet.message.has("bad")
      ? section({ success: "no", errmsg: "invalid value for: x, config discarded" })
      : SUCCESS;
  });
  await using session = await connectVici({ path: charon.path });
  const known = new Map<string, ConnectionDigest>(), doomed: Doomed = new Map();
  const bad = conn("bad", {}), a = conn("a", A);
  const report = await applyLoad(session, {
    load: [
      {
        connection: bad,
        digest: await digestConnection(bad),
        unloadFirst: false,
        staleIke: false,
        staleChildren: [],
        addressesOnly: false,
      },
      {
        connection: a,
        digest: await digestConnection(a),
        unloadFirst: true,
        staleIke: false,
        staleChildren: ["c"],
        addressesOnly: false,
      },
    ],
    unload: ["gone"],
    blocked: new Map(),
  }, { known, doomed });
  assert.deepEqual([...report.failed], [[
    "bad",
    "charon refuses the configuration: invalid value for: x, config discarded",
  ]]);
  assert.deepEqual([report.loaded, report.unloaded, [...report.renewed]], [["a"], ["gone"], ["a"]]);
  assert.deepEqual([...known.keys()], ["a"]);
  assert.deepEqual([...doomed], [["child:1", 0]]);
  assert.deepEqual(charon.seen.filter((line) => line.includes("conn")), [
    "request load-conn",
    "request unload-conn",
    "request load-conn",
    "request unload-conn",
  ]);
});

Deno.test("terminateDoomed() asks by id, then by force, and forgets what is gone", async () => {
  const asked: unknown[] = [];
  await using charon = await startFakeCharon((packet) => {
    asked.push(Object.fromEntries(packet.message));
    return section({ success: "no", errmsg: "no matching SAs to terminate found" });
  });
  await using session = await connectVici({ path: charon.path });
  const doomed: Doomed = new Map([["ike:7", 0], ["child:1", 0], ["ike:99", 0]]);
  const sas = readSas([sa("a", 7, ["c", 1])]);
  await terminateDoomed(session, doomed, sas);
  await terminateDoomed(session, doomed, sas);
  assert.deepEqual(asked, [
    { "child-id": "1", timeout: "-1" },
    { "ike-id": "7", timeout: "-1" },
    { "child-id": "1", timeout: "-1", force: "yes" },
    { "ike-id": "7", timeout: "-1", force: "yes" },
  ]);
  await terminateDoomed(session, doomed, []);
  assert.equal(doomed.size, 0);
});

Deno.test("orphansOf() gives SAs of names that are not desired, but none that is still without a name", () => {
  assert.deepEqual(orphansOf(readSas([sa("a", 1), sa("old", 2), sa("(unnamed)", 3)]), new Set(["a"])), [
    "ike:2",
  ]);
});

Deno.test("postponable() names a connection of which only the peer's addresses changed, while its SA is at one of them", async () => {
  const at = (...addresses: string[]): ViciLiteral => ({ ...A, remote_addrs: addresses });
  const sas = (host: string, state = "ESTABLISHED") =>
    readSas([section({ a: { uniqueid: "1", state, "remote-host": host } })]);
  const names = async (
    before: ViciLiteral,
    after: ViciLiteral,
    host: string,
    state?: string,
  ): Promise<string[]> => [
    ...postponable((await change(before, after)).load, sas(host, state)),
  ];
  assert.deepEqual(await names(at("1.1.1.1"), at("2.2.2.2", "1.1.1.1"), "1.1.1.1"), ["a"]);
  assert.deepEqual(await names(at("1.1.1.1", "2.2.2.2"), at("2.2.2.2", "1.1.1.1"), "1.1.1.1"), ["a"]);
  assert.deepEqual(await names(at("1.1.1.1"), at("2.2.2.2"), "1.1.1.1"), []);
  assert.deepEqual(await names(at("1.1.1.1"), at("2.2.2.2", "1.1.1.1"), "1.1.1.1", "CONNECTING"), []);
  assert.deepEqual(await names(at("1.1.1.1"), { ...at("2.2.2.2", "1.1.1.1"), version: "1" }, "1.1.1.1"), []);
  assert.deepEqual(await names(at("1.1.1.1"), { ...at("2.2.2.2", "1.1.1.1"), children: {} }, "1.1.1.1"), []);
});

Deno.test("readDigests() gives what writeDigests() wrote for the same socket, and nothing for another or a broken file", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/digests.json`;
    const digests = new Map([["a", await digestConnection(conn("a", A))]]);
    const doomed = new Set(["child:4", "ike:3"]);
    await writeDigests(path, "1:2:3", { connections: digests, doomed });
    assert.deepEqual(await readDigests(path, "1:2:3"), { connections: digests, doomed });
    assert.equal((await readDigests(path, "1:2:4")).connections.size, 0);
    for (
      const text of [
        "",
        "{",
        "[]",
        '{"socket":"1:2:3","connections":{"a":{}}}',
        '{"socket":"1:2:3","connections":null}',
      ]
    ) {
      await Deno.writeTextFile(path, text);
      assert.equal((await readDigests(path, "1:2:3")).connections.size, 0);
    }
    assert.equal((await readDigests(`${folder}/none`, "1:2:3")).connections.size, 0);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
