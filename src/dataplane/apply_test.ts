import assert from "node:assert/strict";
import { createApplier, differenceOf } from "./apply.ts";
import type { Exec } from "./exec.ts";
import { type KernelState, parseKernel } from "./kernel.ts";
import { network } from "./network_fixture.ts";
import { planOf } from "./plan.ts";

const lo = { name: "lo", mtu: 65536, up: true };
const net1 = { name: "net1", mtu: 1450, up: true };
const empty: KernelState = { links: [lo, net1], addresses: [], rules: [], routes: [] };

Deno.test("differenceOf() writes dead ends first and rules last when nothing is there yet", () => {
  assert.deepEqual(differenceOf(planOf(network({ driver: "xfrm" })), empty), {
    lines: [
      "route replace unreachable default table 100 metric 9999 proto 117",
      "route replace unreachable default table 11042 metric 9999 proto 117",
      "link add ipsec1042 type xfrm dev lo if_id 1042",
      "link set ipsec1042 mtu 1386 up",
      "address add 100.64.0.1/32 dev lo",
      "route replace unicast 10.0.0.0/24 dev net1 scope link table 100 proto 117",
      "route replace unicast default via 10.0.0.1 dev net1 table 100 proto 117",
      "route replace unicast 192.168.77.0/24 dev ipsec1042 scope link table 11042 proto 117",
      "rule add priority 100 from 10.0.0.7 table 100 protocol 117",
      "rule add priority 200 from all to 192.168.77.0/24 table 11042 protocol 117",
    ],
    missing: [],
  });
});

Deno.test("differenceOf() leaves out what needs a device that is not there, and names it", () => {
  const { lines, missing } = differenceOf(planOf(network()), { ...empty, links: [lo] });
  assert.deepEqual(missing, ["net1"]);
  assert.ok(lines.includes("route replace unreachable default table 100 metric 9999 proto 117"));
  assert.ok(!lines.some((line) => line.includes("net1")));
});

Deno.test("differenceOf() makes the interface anew when its if_id is another, and takes away stale ones", () => {
  const links = [lo, net1, { name: "ipsec1042", mtu: 1386, up: true, ifId: 7 }, {
    name: "ipsec5",
    mtu: 1386,
    up: true,
    ifId: 5,
  }, { name: "ipsec0", mtu: 1400, up: true }];
  const { lines } = differenceOf(planOf(network({ driver: "xfrm" })), { ...empty, links });
  const about = (word: string) =>
    lines.filter((line) => line.startsWith("link") && line.includes(`${word} `) || line.endsWith(word));
  assert.deepEqual(about("ipsec1042"), [
    "link delete ipsec1042",
    "link add ipsec1042 type xfrm dev lo if_id 1042",
    "link set ipsec1042 mtu 1386 up",
  ]);
  assert.deepEqual(about("ipsec5"), ["link delete ipsec5"]);
  assert.deepEqual(about("ipsec0"), []);
});

Deno.test("differenceOf() sets ipsec0's MTU again when charon has made it anew", () => {
  const links = [lo, net1, { name: "ipsec0", mtu: 1400, up: true }];
  assert.ok(differenceOf(planOf(network()), { ...empty, links }).lines.includes("link set ipsec0 mtu 1386"));
});

Deno.test("parseKernel() keeps our rules, and the global addresses", () => {
  const kernel = parseKernel([
    '[{"ifname":"lo","flags":["UP"],"mtu":65536},{"ifname":"ipsec42","flags":[],"mtu":1400,"linkinfo":{"info_kind":"xfrm","info_data":{"link":"lo","if_id":"0x2a"}}}]',
    '[{"ifname":"lo","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8,"scope":"host"},{"family":"inet","local":"100.64.0.1","prefixlen":32,"scope":"global"}]}]',
    '[{"priority":0,"src":"all","table":"local","protocol":"kernel"},{"priority":200,"src":"all","dst":"192.168.77.0","dstlen":24,"table":"10042","protocol":"117"}]',
    '[{"type":"unreachable","dst":"default","table":"10042","scope":"global","metric":9999,"flags":[]}]',
  ].join("\n"));
  assert.deepEqual(kernel.links[1], { name: "ipsec42", mtu: 1400, up: false, ifId: 42 });
  assert.deepEqual(kernel.addresses, ["lo 100.64.0.1/32"]);
  assert.deepEqual(kernel.rules, [{ priority: 200, table: "10042", to: "192.168.77.0/24" }]);
  assert.deepEqual(kernel.routes, [{ type: "unreachable", table: "10042", to: "default", metric: 9999 }]);
});

Deno.test("Applier.apply() says what ip refused and which lines were sent", async () => {
  const exec: Exec = (argv) =>
    Promise.resolve(
      argv.includes("-json")
        ? { code: 0, stdout: "[]\n[]\n[]\n[]\n", stderr: "" }
        : { code: 1, stdout: "", stderr: "Command failed -:1" },
    );
  await assert.rejects(
    createApplier(exec).apply(planOf(network())),
    /Cannot write links and routes: .*Command failed -:1.*rule add/,
  );
});
