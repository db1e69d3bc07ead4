import assert from "node:assert/strict";
import { ViciError, type ViciSession } from "./contract.ts";
import {
  type FakeCharon,
  type FakeClient,
  type FakeHandler,
  startFakeCharon,
  SUCCESS,
} from "./fake_charon.ts";
import { section, textOf, type ViciSection } from "./message.ts";
import { connectVici } from "./session.ts";
import { encodePacket, PACKET } from "./wire.ts";

/** Runs `body` with a session to a fake charon that answers as `handler` does. */
async function withSession(
  handler: FakeHandler,
  body: (session: ViciSession, charon: FakeCharon) => Promise<void>,
): Promise<void> {
  await using charon = await startFakeCharon(handler);
  await using session = await connectVici({ path: charon.path });
  await body(session, charon);
}

/** Waits until `condition` holds. */
async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 5_000;
  while (!condition()) {
    assert(performance.now() < deadline, `not within 5 s: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

const echo: FakeHandler = (packet) => packet.message;

Deno.test("ViciSession.call() gives the answer of any command", () =>
  withSession(echo, async (session) => {
    const message = section({ a: "1", inner: { list: ["x", "y"] } });
    assert.deepEqual(await session.call("echo", message), message);
    assert.deepEqual(await session.call("version"), new Map());
  }));

Deno.test("ViciSession.call() keeps the order when many calls are made at once", () =>
  withSession(echo, async (session, charon) => {
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => session.call(`c${i}`, section({ i: `${i}` }))),
    );
    assert.deepEqual(
      answers.map((answer) => textOf(answer, "i")),
      Array.from({ length: 200 }, (_, i) => `${i}`),
    );
    assert.deepEqual(charon.seen, Array.from({ length: 200 }, (_, i) => `request c${i}`));
  }));

Deno.test("ViciSession.call() throws a ViciError when charon refuses, with its words", () =>
  withSession(
    () => section({ success: "no", errmsg: "unknown option: ocsp, config discarded" }),
    async (session) => {
      await assert.rejects(session.call("load-conn"), (error: unknown) =>
        error instanceof ViciError && error.command === "load-conn" &&
        error.errmsg === "unknown option: ocsp, config discarded");
    },
  ));

Deno.test("ViciSession.call() throws a ViciError when charon gives no reason or does not know the command", async () => {
  await withSession(() => section({ success: "no" }), async (session) => {
    await assert.rejects(session.call("x"), { name: "ViciError", errmsg: "no reason" });
  });
  await withSession(() => "unknown", async (session) => {
    await assert.rejects(session.call("x"), { name: "ViciError", errmsg: "unknown command" });
    await assert.rejects(session.call("x"), { name: "ViciError" }); // and the session goes on
  });
});

Deno.test("ViciSession.call() times out when charon is silent, and gives no late answer to another call", async () => {
  let release: (() => void) | undefined;
  await withSession(async (packet) => {
    if (packet.name === "slow") await new Promise<void>((resolve) => release = resolve);
    return section({ answers: packet.name });
  }, async (session, charon) => {
    await assert.rejects(session.call("slow", undefined, { timeoutMs: 20 }), { name: "TimeoutError" });
    await assert.rejects(session.call("waits", undefined, { timeoutMs: 20 }), { name: "TimeoutError" });
    const next = session.call("next");
    await until(() => release !== undefined);
    release?.();
    assert.equal(textOf(await next, "answers"), "next");
    assert.deepEqual(charon.seen, ["request slow", "request next"]); // what gave up in the queue was never sent
    assert.equal(session.ended, false);
  });
});

Deno.test("ViciSession.call() ends when its signal aborts", () =>
  withSession(() => undefined, async (session) => {
    const abort = new AbortController();
    const call = session.call("x", undefined, { signal: abort.signal });
    abort.abort();
    await assert.rejects(call, { name: "AbortError" });
    await assert.rejects(session.call("x", undefined, { signal: abort.signal }), { name: "AbortError" });
  }));

Deno.test("ViciSession.call() rejects what is pending and what comes after when charon is killed", () =>
  withSession(() => undefined, async (session, charon) => {
    const calls = [session.call("a"), session.call("b")];
    const settled = Promise.allSettled(calls);
    await until(() => charon.seen.length === 1);
    charon.kill();
    assert.deepEqual((await settled).map((result) => result.status), ["rejected", "rejected"]);
    assert.match((await session.closed).message, /closed the connection/);
    assert.equal(session.ended, true);
    await assert.rejects(session.call("c"), /the VICI session has ended/);
  }));

/** Answers list-sas with `count` events before the response. */
const listing = (count: number, success = SUCCESS): FakeHandler => async (packet, client) => {
  if (packet.name !== "list-sas") return packet.message;
  for (let i = 0; i < count; i++) {
    await client.event("list-sa", section({ [`conn${i}`]: { uniqueid: `${i}` } }));
  }
  return success;
};

async function collect(session: ViciSession): Promise<ViciSection[]> {
  return await Array.fromAsync(session.stream("list-sas", "list-sa"));
}

Deno.test("ViciSession.stream() gives every event and registers around the request", () =>
  withSession(listing(500), async (session, charon) => {
    assert.equal((await collect(session)).length, 500);
    assert.equal((await collect(session)).length, 500); // once each: no double registration
    await session.call("done");
    assert.deepEqual(charon.seen.slice(0, 3), ["register list-sa", "request list-sas", "unregister list-sa"]);
    assert.equal(charon.seen.length, 7);
  }));

Deno.test("ViciSession.stream() works when there is no event, when it is left early, and when it fails", async () => {
  await withSession(listing(0), async (session) => assert.deepEqual(await collect(session), []));
  await withSession(listing(50), async (session, charon) => {
    for await (const _ of session.stream("list-sas", "list-sa")) break;
    await session.call("done");
    assert.deepEqual(charon.seen.at(-2), "unregister list-sa");
    assert.equal((await collect(session)).length, 50);
  });
  await withSession(listing(3, section({ success: "no", errmsg: "broken" })), async (session) => {
    await assert.rejects(collect(session), { name: "ViciError", errmsg: "broken" });
  });
});

Deno.test("ViciSession.stream() throws when charon dies among the events", () =>
  withSession(async (_, client) => {
    await client.event("list-sa", section({ a: {} }));
    client.close();
    return undefined;
  }, async (session) => {
    await assert.rejects(collect(session), /the VICI session has ended/);
  }));

Deno.test("ViciSession.events() gives events in order while calls go on", () =>
  withSession(async (packet, client) => {
    if (packet.name === "fire") {
      for (let i = 0; i < 100; i++) await client.event("ike-updown", section({ i: `${i}` }));
      await client.event("log", section({ msg: "not subscribed" }));
    }
    return SUCCESS;
  }, async (session) => {
    const events = await session.events("child-updown", "ike-updown");
    await Promise.all([session.call("fire"), session.call("other")]);
    const seen: string[] = [];
    for await (const event of events) {
      seen.push(`${event.name} ${textOf(event.message, "i")}`);
      if (seen.length === 100) break;
    }
    assert.deepEqual(seen, Array.from({ length: 100 }, (_, i) => `ike-updown ${i}`));
  }));

Deno.test("ViciSession.events() registers a name once for two subscribers, and unregisters with the last", () =>
  withSession(echo, async (session, charon) => {
    const first = await session.events("log");
    const second = await session.events("log");
    await first.return();
    await session.call("a");
    await second.return();
    await session.call("b");
    assert.deepEqual(charon.seen, ["register log", "request a", "unregister log", "request b"]);
    assert.deepEqual(await first.next(), { done: true, value: undefined });
  }));

Deno.test("ViciSession.events() throws when charon does not know the event", () =>
  withSession(echo, async (session) => {
    await assert.rejects(session.events("log", "nonsense"), { name: "ViciError", errmsg: "unknown event" });
    await session.call("goes on");
  }));

Deno.test("ViciSession.events() ends when charon goes away", () =>
  withSession(echo, async (session, charon) => {
    const events = await session.events("log");
    charon.kill();
    assert.deepEqual(await events.next(), { done: true, value: undefined });
  }));

const NONSENSE: Readonly<Record<string, Uint8Array>> = {
  "an oversized packet": Uint8Array.of(0, 8, 0, 1),
  "an empty packet": Uint8Array.of(0, 0, 0, 0),
  "an unknown packet": Uint8Array.of(0, 0, 0, 1, 99),
  "a request": encodePacket(PACKET.commandRequest, "list-sas"),
  "a broken message": Uint8Array.of(0, 0, 0, 3, 1, 3, 9),
};
for (const [what, bytes] of Object.entries(NONSENSE)) {
  Deno.test(`ViciSession ends with an error when charon sends ${what}`, () =>
    withSession(async (_, client) => {
      await client.write(bytes);
      return undefined;
    }, async (session) => {
      await assert.rejects(session.call("x"), /the VICI session has ended/);
      assert.match((await session.closed).message, /^Cannot /);
    }));
}

Deno.test("ViciSession ends with an error when an answer comes that nobody asked for", () =>
  withSession(echo, async (session, charon) => {
    await session.call("x");
    await [...charon.clients][0]?.write(encodePacket(PACKET.commandResponse));
    assert.match((await session.closed).message, /nothing asked for it/);
  }));

Deno.test("ViciSession ends when charon closes at any byte of an answer", async () => {
  const answer = encodePacket(PACKET.commandResponse, undefined, section({ a: "b", list: ["c"] }));
  for (let cut = 0; cut < answer.length; cut++) {
    await withSession(async (_, client) => {
      await client.write(answer.subarray(0, cut));
      client.close();
      return undefined;
    }, async (session) => {
      await assert.rejects(session.call("x"), /the VICI session has ended/);
    });
  }
});

Deno.test("ViciSession takes an answer that comes byte by byte", () =>
  withSession(async (_, client) => {
    for (const byte of encodePacket(PACKET.commandResponse, undefined, section({ a: "b" }))) {
      await client.write(Uint8Array.of(byte));
    }
    return undefined;
  }, async (session) => {
    assert.equal(textOf(await session.call("x"), "a"), "b");
  }));

Deno.test("ViciSession gives up when nobody reads its events", async () => {
  let client: FakeClient | undefined;
  await using charon = await startFakeCharon((_, from) => {
    client = from;
    return SUCCESS;
  });
  await using session = await connectVici({ path: charon.path, maxUnread: 10 });
  await session.events("log");
  await session.call("x");
  for (let i = 0; i < 11; i++) await client?.event("log", section({ msg: "m" }));
  assert.match((await session.closed).message, /unread events/);
});

Deno.test("connectVici() rejects when nobody listens or its signal was aborted", async () => {
  await assert.rejects(connectVici({ path: "/nonexistent/vici" }), Deno.errors.NotFound);
  await assert.rejects(connectVici({ path: "/nonexistent/vici", signal: AbortSignal.abort() }), {
    name: "AbortError",
  });
});

Deno.test("connectVici() leaves no file descriptor behind in 1,000 reconnects", async () => {
  await using charon = await startFakeCharon(echo);
  const open = (): number => [...Deno.readDirSync("/proc/self/fd")].length;
  const once = async (turn: number): Promise<void> => {
    const session = await connectVici({ path: charon.path });
    await session.call("x");
    if (turn % 2 === 0) session.close(); // with a read pending
    else [...charon.clients].at(-1)?.close();
    await session.closed;
  };
  for (let i = 0; i < 10; i++) await once(i);
  await until(() => charon.clients.size === 0);
  const before = open();
  for (let i = 0; i < 1_000; i++) await once(i);
  await until(() => charon.clients.size === 0 && open() <= before + 2);
});
