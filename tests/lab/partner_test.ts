import assert from "node:assert/strict";
import { readSAs, renderPartner } from "./partner.ts";

Deno.test("renderPartner() writes keys as hex and names the local id where remote ids collide", () => {
  const child = { name: "net", remoteTs: ["100.64.0.0/24"] };
  const base = { remote: "203.0.113.140", children: [child] };
  const text = renderPartner([
    { ...base, name: "a", key: 'q"uo\nte', localId: "one.example" },
    { ...base, name: "b", key: "two", localId: "two.example" },
    { ...base, name: "c", key: "three", remoteId: "gw.example" },
  ]);
  assert.match(
    text,
    /ike-a \{\n {4}id-remote = 203\.0\.113\.140\n {4}id-local = one\.example\n {4}secret = 0x71/,
  );
  assert.match(text, /ike-c \{\n {4}id-remote = gw\.example\n {4}secret = 0x7468726565\n/);
});

Deno.test("readSAs() reads what swanctl 5.9.8 prints", () => {
  const text =
    `list-sa event {gw {uniqueid=3 version=2 state=ESTABLISHED local-host=203.0.113.250 local-port=4500 ` +
    `local-id=203.0.113.250 remote-host=203.0.113.140 remote-port=4500 remote-id=203.0.113.140 initiator=yes ` +
    `child-sas {net-7 {name=net uniqueid=7 reqid=1 state=INSTALLED mode=TUNNEL protocol=ESP encap=yes bytes-in=84 ` +
    `packets-in=1 bytes-out=168 packets-out=2 local-ts=[192.168.77.0/24] remote-ts=[100.64.0.0/24 100.64.1.0/24]}}}}\n` +
    `list-sas reply {}\n`;
  const [sa, ...rest] = readSAs(text);
  assert.deepEqual(rest, []);
  assert.equal(sa?.state, "ESTABLISHED");
  assert.deepEqual(sa?.children[0]?.remoteTs, ["100.64.0.0/24", "100.64.1.0/24"]);
  assert.equal(sa?.children[0]?.bytesOut, 168);
});
