// The driver of a charon against real daemons. `deno test -A tests/charon_test.ts`, as root.
import assert from "node:assert/strict";
import { type Daemon, startDaemon } from "../src/charon/daemon.ts";
import {
  type Desired,
  type DesiredConnection,
  type DesiredKey,
  startActionOf,
} from "../src/charon/desired.ts";
import type { TunnelState } from "../src/charon/sa_model.ts";
import { createLog } from "../src/process/log.ts";
import { type SwanctlLiteral, swanctlSection } from "../src/swanctl/model.ts";
import { parseSwanctl } from "../src/swanctl/parse.ts";
import { renderSwanctl } from "../src/swanctl/render.ts";
import { translateConnections } from "../src/swanctl/translate.ts";
import { listOf, section, sectionOf, sectionsOf, textOf } from "../src/vici/message.ts";
import { type Charon, eventually, type Pair, run, sasOf, startPair, withVici } from "./charon_pair.ts";

const KEY_ID = "ipsec.bnerd.net/gw";
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** One side of tunnel N. The partner's id is pN.test, ours gw.test. */
function connection(
  n: number,
  ours: boolean,
  more: SwanctlLiteral = {},
  child: SwanctlLiteral = {},
): SwanctlLiteral {
  const [us, them] = [`gw.test`, `p${n}.test`];
  const [here, there] = [[`10.101.${n}.0/24`], [`10.102.${n}.0/24`]];
  return {
    version: 2,
    mobike: false,
    encap: true,
    unique: "replace",
    local_addrs: [ours ? "192.0.2.1" : "192.0.2.2"],
    remote_addrs: [ours ? "192.0.2.2" : "192.0.2.1"],
    proposals: ["aes128gcm16-prfsha256-x25519"],
    dpd_delay: "2s",
    local: { auth: "psk", id: ours ? us : them },
    remote: { auth: "psk", id: ours ? them : us },
    children: {
      [`t${n}-net`]: {
        esp_proposals: ["aes128gcm16"],
        local_ts: ours ? here : there,
        remote_ts: ours ? there : here,
        start_action: ours ? "start" : "none",
        close_action: "none",
        ...child,
      },
    },
    ...more,
  };
}

/** Through text and back, as the agent gets it. */
function desiredConnections(literals: Record<string, SwanctlLiteral>): DesiredConnection[] {
  const text = renderSwanctl(swanctlSection({ connections: literals }));
  return translateConnections(parseSwanctl(text)).map(({ name, message }) => ({
    name,
    message,
    keyId: KEY_ID,
    children: sectionsOf(sectionOf(message, "children")).map(([child, body]) => ({
      name: child,
      startAction: startActionOf(textOf(body, "start_action")),
    })),
  }));
}

/** Gives the partner its side of the tunnels and a key for them. */
async function loadPartner(
  pair: Pair,
  tunnels: readonly number[],
  { key = "secret-1", more = {} as SwanctlLiteral, child = {} as SwanctlLiteral } = {},
): Promise<void> {
  await withVici(pair.theirs, async (session) => {
    await session.call("load-shared", section({ id: "k", type: "IKE", data: key, owners: ["gw.test"] }));
    for (
      const { name, message } of desiredConnections(
        Object.fromEntries(tunnels.map((n) => [`t${n}`, connection(n, false, more, child)])),
      )
    ) {
      await session.call("load-conn", new Map([[name, message]]));
    }
  });
}

/** A driver of our charon whose desired state the test changes. */
class Agent implements AsyncDisposable {
  readonly log: string[] = [];
  key: string | undefined = "secret-1";
  connections: Record<string, SwanctlLiteral> = {};
  states = 0;
  readonly #abort = new AbortController();
  readonly daemon: Daemon;

  constructor(
    pair: Pair,
    connections: Record<string, SwanctlLiteral>,
    { tickMs = 2_000, key = "secret-1" as string | undefined } = {},
  ) {
    this.connections = connections;
    this.key = key;
    this.daemon = startDaemon({
      socketPath: pair.ours.socket,
      digestPath: `${pair.folder}/digests.json`,
      desired: () => Promise.resolve(this.desired()),
      tickMs,
      log: createLog({ level: "debug", write: (line) => this.log.push(line) }),
      signal: this.#abort.signal,
      onState: () => {
        this.states++;
        return Promise.resolve();
      },
    });
  }

  desired(): Desired {
    const owners = Object.keys(this.connections).map((name) => `p${name.slice(1)}.test`);
    const key: DesiredKey = {
      id: KEY_ID,
      owners,
      read: () =>
        this.key === undefined
          ? Promise.reject(new Deno.errors.NotFound())
          : Promise.resolve(bytes(this.key)),
    };
    return { connections: desiredConnections(this.connections), keys: [key] };
  }

  tunnel(name: string): TunnelState | undefined {
    return this.daemon.state.tunnels.find((tunnel) => tunnel.name === name);
  }

  /** How often a message was logged. */
  logged(message: string): number {
    return this.log.filter((line) => JSON.parse(line).msg === message).length;
  }

  established(seconds: number, ...names: string[]): Promise<unknown> {
    return eventually(
      `${names.join()} established`,
      seconds,
      () => names.every((name) => this.tunnel(name)?.state === "ESTABLISHED"),
    )
      .catch((error) => {
        throw new Error(`${error.message}\n${this.log.slice(-15).join("\n")}`);
      });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort();
    await this.daemon.done;
  }
}

/** Ids of the IKE_SAs and CHILD_SAs of one tunnel. */
async function ids(charon: Charon, name: string): Promise<string> {
  const sas = (await sasOf(charon)).filter((sa) => sa.name === name);
  return JSON.stringify(sas.map((sa) => [sa.id, sa.children.map((child) => child.id)]));
}

const one = { t1: connection(1, true) };

/** A test with a pair of its own. */
function pairTest(name: string, body: (pair: Pair) => Promise<void>): void {
  Deno.test(name, async () => {
    await using pair = await startPair();
    await body(pair);
  });
}

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
