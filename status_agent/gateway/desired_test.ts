import assert from "node:assert/strict";
import { desiredOf, ownersOf } from "./desired.ts";
import { connection, gatewayConfig } from "./fixture.ts";

const readKey = (key: string) => Promise.resolve(new TextEncoder().encode(key));

/** The load-conn message of one connection. */
function messageOf(changes: Parameters<typeof connection>[0]) {
  return gatewayConfig({ tunnels: [{ name: "one" }] }, { one: connection(changes) }).connections[0]!.message;
}

Deno.test("desiredOf() gives the shared key to the peers of the tunnels that have no key of their own", async () => {
  const { connections, keys } = desiredOf(gatewayConfig(), { driver: "xfrm", readKey });
  assert.deepEqual(keys.map(({ id, owners }) => ({ id, owners })), [
    { id: "ipsec.bnerd.net/acme", owners: ["partner.example"] },
    { id: "ipsec.bnerd.net/acme/hq", owners: ["hq.example"] },
  ]);
  assert.deepEqual(await Promise.all(keys.map(async (key) => new TextDecoder().decode(await key.read()))), [
    "psk",
    "hq-psk",
  ]);
  assert.deepEqual(connections.map(({ name, keyId }) => [name, keyId]), [
    ["branch", "ipsec.bnerd.net/acme"],
    ["hq", "ipsec.bnerd.net/acme/hq"],
  ]);
});

Deno.test("desiredOf() has no shared key when every tunnel has its own", () => {
  const config = gatewayConfig({ tunnels: [{ name: "branch", pskKey: "b" }, { name: "hq", pskKey: "h" }] });
  const { keys } = desiredOf(config, { driver: "xfrm", readKey });
  assert.deepEqual(keys.map(({ id }) => id), ["ipsec.bnerd.net/acme/branch", "ipsec.bnerd.net/acme/hq"]);
});

Deno.test("ownersOf() never names the local id, and the peer's address only with IKEv1 or without an id", () => {
  assert.deepEqual(ownersOf(messageOf({})), ["partner.example"]);
  assert.deepEqual(ownersOf(messageOf({ version: "1" })), ["203.0.113.250", "partner.example"]);
  assert.deepEqual(ownersOf(messageOf({ remote: { auth: "psk" } })), ["203.0.113.250"]);
});

Deno.test("ownersOf() gives nobody when the peer's id stands for anybody", () => {
  assert.deepEqual(ownersOf(messageOf({ remote: { auth: "psk", id: "%any" } })), []);
});

Deno.test("desiredOf() takes if_ids out when the driver is libipsec, also below the children", () => {
  const children = { net: { remote_ts: ["10.0.0.0/8"], if_id_in: "7", start_action: "trap" } };
  const config = gatewayConfig({ tunnels: [{ name: "one" }] }, { one: connection({ children }) });
  const text = (driver: "xfrm" | "libipsec") => {
    const { message } = desiredOf(config, { driver, readKey }).connections[0]!;
    const keys: string[] = [];
    const walk = (section: ReadonlyMap<string, unknown>) => {
      for (const [key, value] of section) value instanceof Map ? walk(value) : keys.push(key);
    };
    walk(message);
    return keys.filter((key) => key.startsWith("if_id"));
  };
  assert.deepEqual(text("libipsec"), []);
  assert.deepEqual(text("xfrm").sort(), ["if_id_in", "if_id_in", "if_id_out"]);
  assert.equal(
    desiredOf(config, { driver: "xfrm", readKey }).connections[0]!.children[0]!.startAction,
    "trap",
  );
});
