// The driver of a charon against real daemons: what lives, dies and comes back. As root.
import assert from "node:assert/strict";
import { section } from "../src/vici/message.ts";
import { Agent, connection, ids, loadPartner, one, pairTest } from "./charon_agent.ts";
import { eventually, run, sasOf, withVici } from "./charon_pair.ts";

pairTest("startDaemon() loads, establishes and passes packets; metrics() shows it", async (pair) => {
  await loadPartner(pair, [1, 2]);
  await using agent = new Agent(pair, { t1: connection(1, true), t2: connection(2, true) });
  await agent.established(15, "t1", "t2");
  await run(
    "ip",
    "netns",
    "exec",
    pair.ours.namespace,
    "ping",
    "-c1",
    "-W3",
    "-I",
    "10.101.1.1",
    "10.102.1.1",
  );
  assert.equal(agent.tunnel("t1")?.peerAddress, "192.0.2.2");
  const text = await agent.daemon.metrics();
  assert.match(text, /^ipsec_tunnel_up\{tunnel="t1"\} 1$/m);
  assert.match(text, /^strongswan_ike_status\{ike_name="t1",ike_id="\d+"\} 1$/m);
  assert.match(
    text,
    /^strongswan_sa_inbound_packets\{ike_name="t1",ike_id="\d+",child_name="t1-net",child_id="\d+",local_ts="10.101.1.0\/24",remote_ts="10.102.1.0\/24"\} 1$/m,
  );
  assert.equal(agent.log.some((line) => line.includes("secret-1")), false);
  assert.equal((await Deno.readTextFile(`${pair.folder}/digests.json`)).includes("secret"), false);
});

pairTest("a changed key is pushed within a tick and costs no SA", async (pair) => {
  await loadPartner(pair, [1]);
  await using agent = new Agent(pair, one);
  await agent.established(15, "t1");
  const before = await ids(pair.ours, "t1");
  const pushes = agent.logged("Pushed pre-shared keys");
  agent.key = "secret-2\n";
  await eventually("the key is pushed", 3, () => agent.logged("Pushed pre-shared keys") === pushes + 1);
  assert.equal(await ids(pair.ours, "t1"), before);
  // charon really uses it: the partner gets the new one, and a new IKE_SA authenticates.
  await loadPartner(pair, [], { key: "secret-2" });
  await withVici(pair.ours, (session) => session.call("terminate", section({ ike: "t1", timeout: "5000" })));
  await eventually(
    "a new SA",
    10,
    async () => agent.tunnel("t1")?.state === "ESTABLISHED" && await ids(pair.ours, "t1") !== before,
  );
});

pairTest(
  "a killed charon is established again within 10 s of its socket's return, each of three times",
  async (pair) => {
    await loadPartner(pair, [1, 2]);
    await using agent = new Agent(pair, { t1: connection(1, true), t2: connection(2, true) }, {
      tickMs: 15_000,
    });
    await agent.established(15, "t1", "t2");
    for (let life = 2; life <= 4; life++) {
      await pair.ours.kill();
      await eventually(
        "UNKNOWN while it is away",
        3,
        () => !agent.daemon.state.connected && agent.tunnel("t1")?.state === "UNKNOWN",
      );
      await pair.ours.start();
      await agent.established(10, "t1", "t2");
      assert.equal(agent.daemon.state.life, life);
    }
  },
);

pairTest("an agent that starts again sends no connection again and costs no SA", async (pair) => {
  await loadPartner(pair, [1]);
  {
    await using agent = new Agent(pair, one);
    await agent.established(15, "t1");
  }
  const before = await ids(pair.ours, "t1");
  await using agent = new Agent(pair, one);
  await agent.established(5, "t1");
  assert.equal(agent.logged("Loaded connections"), 0);
  assert.equal(agent.logged("Initiated a child that is down"), 0);
  assert.equal(await ids(pair.ours, "t1"), before);
});

pairTest("the watchdog initiates a tunnel that went down, once the peer is there", async (pair) => {
  await loadPartner(pair, [1]);
  await using agent = new Agent(pair, one);
  await agent.established(15, "t1");
  const begun = performance.now();
  await withVici(pair.ours, (session) => session.call("terminate", section({ ike: "t1", timeout: "-1" })));
  await eventually("it was initiated", 6, () => agent.logged("Initiated a child that is down") > 0);
  await agent.established(6, "t1");
  assert(performance.now() - begun < 8_000);
  // Only the child: the IKE_SA stays as it is.
  const [sa] = await sasOf(pair.ours);
  await withVici(
    pair.ours,
    (session) => session.call("terminate", section({ child: "t1-net", timeout: "-1" })),
  );
  await eventually("a new child", 8, async () => {
    const [now] = await sasOf(pair.ours);
    return now?.id === sa?.id && now?.children.length === 1 && now?.children[0]?.id !== sa?.children[0]?.id;
  });
});

pairTest("a peer that comes late is reached, with one attempt at a time", async (pair) => {
  await pair.theirs.kill();
  await using agent = new Agent(pair, one, { tickMs: 1_000 });
  await eventually(
    "the cause is named",
    20,
    () => /does not answer/.test(agent.tunnel("t1")?.lastError ?? ""),
  );
  assert((await sasOf(pair.ours)).length <= 1);
  await pair.theirs.start();
  await loadPartner(pair, [1]);
  await agent.established(60, "t1");
  assert.equal(agent.tunnel("t1")?.lastError, undefined);
  assert.equal((await sasOf(pair.ours)).flatMap((sa) => sa.children).length, 1);
});

pairTest("a charon that is stopped reads UNKNOWN, and goes on with the same SAs", async (pair) => {
  await loadPartner(pair, [1], { more: { dpd_delay: "60s" } });
  await using agent = new Agent(pair, { t1: connection(1, true, { dpd_delay: "60s" }) }, { tickMs: 1_000 });
  await agent.established(15, "t1");
  const before = await ids(pair.ours, "t1");
  pair.ours.signal("SIGSTOP");
  await eventually("UNKNOWN", 15, () => agent.tunnel("t1")?.state === "UNKNOWN");
  pair.ours.signal("SIGCONT");
  await agent.established(10, "t1");
  assert.equal(await ids(pair.ours, "t1"), before);
  assert.equal(agent.daemon.state.life, 1);
});
