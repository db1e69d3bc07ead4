// The driver of a charon against real daemons: configuration, keys and their faults. As root.
import assert from "node:assert/strict";
import { listOf, section, sectionOf, textOf } from "../src/vici/message.ts";
import { Agent, connection, ids, KEY_ID, loadPartner, one, pairTest } from "./charon_agent.ts";
import { eventually, sasOf, withVici } from "./charon_pair.ts";

pairTest("a removed connection is unloaded, its SAs end, and the others stay", async (pair) => {
  await loadPartner(pair, [1, 2]);
  await using agent = new Agent(pair, { t1: connection(1, true), t2: connection(2, true) });
  await agent.established(15, "t1", "t2");
  const before = await ids(pair.ours, "t1");
  agent.connections = one;
  agent.daemon.wake();
  await eventually(
    "t2 is gone",
    5,
    async () => await ids(pair.ours, "t2") === "[]" && await ids(pair.theirs, "t2") === "[]",
  );
  const names = await withVici(
    pair.ours,
    async (session) => listOf(await session.call("get-conns"), "conns"),
  );
  assert.deepEqual(names, ["t1"]);
  assert.equal(await ids(pair.ours, "t1"), before);
});

pairTest(
  "a changed connection runs exactly the new configuration, the others keep their SAs",
  async (pair) => {
    await loadPartner(pair, [1, 2], {
      more: { proposals: ["aes128gcm16-prfsha256-x25519", "aes256gcm16-prfsha256-x25519"] },
      child: { esp_proposals: ["aes128gcm16", "aes256gcm16"] },
    });
    await using agent = new Agent(pair, { t1: connection(1, true), t2: connection(2, true) });
    await agent.established(15, "t1", "t2");
    const [t1, t2] = [await ids(pair.ours, "t1"), await ids(pair.ours, "t2")];
    const renewed = async (keysize: string, where: "ike" | "child"): Promise<boolean> => {
      const sas = (await sasOf(pair.ours)).filter((sa) => sa.name === "t1");
      const children = sas.flatMap((sa) => sa.children);
      return sas.length === 1 && children.length === 1 && children[0]?.state === "INSTALLED" &&
        textOf(where === "ike" ? sas[0]?.raw : children[0]?.raw, "encr-keysize") === keysize;
    };
    agent.connections = {
      ...agent.connections,
      t1: connection(1, true, { proposals: ["aes256gcm16-prfsha256-x25519"] }),
    };
    agent.daemon.wake();
    await eventually("the new IKE proposal", 15, () => renewed("256", "ike"));
    agent.connections = {
      ...agent.connections,
      t1: connection(1, true, { proposals: ["aes256gcm16-prfsha256-x25519"] }, {
        esp_proposals: ["aes256gcm16"],
      }),
    };
    agent.daemon.wake();
    await eventually("the new ESP proposal", 15, () => renewed("256", "child"));
    await agent.established(5, "t1", "t2");
    assert.notEqual(await ids(pair.ours, "t1"), t1);
    assert.equal(await ids(pair.ours, "t2"), t2);
  },
);

pairTest("a connection whose key is missing is not loaded, and says so", async (pair) => {
  await loadPartner(pair, [1]);
  await using agent = new Agent(pair, one, { tickMs: 500 });
  agent.key = undefined;
  await eventually(
    "the key is missed",
    5,
    () => /pre-shared key is missing/.test(agent.tunnel("t1")?.lastError ?? ""),
  );
  const names = await withVici(
    pair.ours,
    async (session) => listOf(await session.call("get-conns"), "conns"),
  );
  assert.deepEqual(names, []);
  agent.key = "\n";
  await eventually(
    "the key is empty",
    5,
    () => /pre-shared key is empty/.test(agent.tunnel("t1")?.lastError ?? ""),
  );
  agent.key = "secret-1\n";
  await agent.established(10, "t1");
  assert.equal(agent.tunnel("t1")?.lastError, undefined);
});

pairTest("a connection that charon refuses is named, and the others go on", async (pair) => {
  await loadPartner(pair, [1]);
  await using agent = new Agent(pair, {
    t1: connection(1, true),
    t2: connection(2, true, { proposals: ["nonsense"] }),
  }, { tickMs: 500 });
  await agent.established(15, "t1");
  assert.match(agent.tunnel("t2")?.lastError ?? "", /charon refuses the configuration: .*proposals/);
  agent.connections = { ...agent.connections, t2: connection(2, true) };
  await loadPartner(pair, [2]);
  await agent.established(10, "t1", "t2");
});

pairTest("a wrong key is named in a network engineer's words", async (pair) => {
  await loadPartner(pair, [1], { key: "another" });
  await using agent = new Agent(pair, one, { tickMs: 1_000 });
  await eventually(
    "the cause",
    15,
    () => /pre-shared key or our identity/.test(agent.tunnel("t1")?.lastError ?? ""),
  );
});

pairTest("a key that somebody took out of charon comes back, and a foreign connection goes", async (pair) => {
  await loadPartner(pair, [1]);
  await using agent = new Agent(pair, one, { tickMs: 500 });
  await agent.established(15, "t1");
  await withVici(pair.ours, async (session) => {
    await session.call("clear-creds");
    await session.call(
      "load-shared",
      section({ id: "ipsec.bnerd.net/old", type: "IKE", data: "x", owners: ["y"] }),
    );
    await session.call("load-conn", section({ foreign: { remote_addrs: ["192.0.2.9"] } }));
  });
  await eventually(
    "as desired",
    5,
    () =>
      withVici(
        pair.ours,
        async (session) =>
          listOf(await session.call("get-shared"), "keys").join() === KEY_ID &&
          listOf(await session.call("get-conns"), "conns").join() === "t1",
      ),
  );
});

pairTest("an idle trap reads ROUTED and is not initiated", async (pair) => {
  await loadPartner(pair, [1]);
  await using agent = new Agent(pair, { t1: connection(1, true, {}, { start_action: "trap" }) }, {
    tickMs: 500,
  });
  await eventually("ROUTED", 5, () => agent.tunnel("t1")?.state === "ROUTED");
  assert.match(await agent.daemon.metrics(), /^ipsec_tunnel_up\{tunnel="t1"\} 1$/m);
  await withVici(
    pair.ours,
    (session) => session.call("initiate", section({ ike: "t1", child: "t1-net", timeout: "5000" })),
  );
  await agent.established(5, "t1");
  assert.equal(agent.logged("Initiated a child that is down"), 0);
});

pairTest(
  "a dead peer detection setting that charon does not compare is changed all the same",
  async (pair) => {
    await loadPartner(pair, [1]);
    await using agent = new Agent(pair, { t1: connection(1, true, { version: 1, dpd_timeout: "20s" }) });
    const timeout = (): Promise<string | undefined> =>
      withVici(pair.ours, async (session) => {
        const [event] = await Array.fromAsync(session.stream("list-conns", "list-conn"));
        return textOf(sectionOf(event, "t1"), "dpd_timeout");
      });
    await eventually("the first", 5, async () => await timeout() === "20");
    agent.connections = { t1: connection(1, true, { version: 1, dpd_timeout: "30s" }) };
    agent.daemon.wake();
    await eventually("the second", 5, async () => await timeout() === "30");
  },
);

pairTest("another set of addresses of the peer costs no SA while it is at one of them", async (pair) => {
  await loadPartner(pair, [1]);
  await using agent = new Agent(pair, one, { tickMs: 500 });
  await agent.established(15, "t1");
  const before = await ids(pair.ours, "t1");
  const addresses = ["192.0.2.9", "192.0.2.2"];
  agent.connections = { t1: connection(1, true, { remote_addrs: addresses }) };
  agent.daemon.wake();
  await eventually(
    "it was seen",
    5,
    () => agent.logged("The peer's addresses have changed; they are loaded when its SA is gone") === 1,
  );
  assert.equal(await ids(pair.ours, "t1"), before);
  // Once the SA is gone, the new set is loaded.
  await withVici(pair.ours, (session) => session.call("terminate", section({ ike: "t1", timeout: "-1" })));
  await eventually("the new addresses", 10, () =>
    withVici(pair.ours, async (session) => {
      const [event] = await Array.fromAsync(session.stream("list-conns", "list-conn"));
      return listOf(sectionOf(event, "t1"), "remote_addrs").join() === addresses.join();
    }));
});
