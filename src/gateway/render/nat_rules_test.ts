import assert from "node:assert/strict";
import { renderNatRules } from "./nat_rules.ts";

Deno.test("renderNatRules() translates both ways when there is one of each", () => {
  const text = renderNatRules(
    [{
      name: "web",
      address: "100.64.3.10",
      port: 443,
      protocol: "TCP",
      targetAddress: "10.96.0.7",
      targetPort: 8443,
    }],
    [{ name: "api", podPort: 20001, protocol: "UDP", remoteAddress: "192.168.77.10", remotePort: 53 }],
    "100.64.3.0/24",
  );
  assert.ok(
    text.includes(
      "-A PREROUTING -i ipsec+ -d 100.64.3.10/32 -p tcp --dport 443 -j DNAT --to-destination 10.96.0.7:8443\n",
    ),
  );
  assert.ok(
    text.includes("-A PREROUTING -i eth0 -p udp --dport 20001 -j DNAT --to-destination 192.168.77.10:53\n"),
  );
  assert.ok(text.includes("-j SNAT --to-source 100.64.3.1\n"));
  assert.ok(text.endsWith("COMMIT\n"));
});

Deno.test("renderNatRules() is an empty table when the mode is routed", () => {
  assert.equal(renderNatRules([], []), "*nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n");
});

Deno.test("renderNatRules() does not depend on the order of the spec", () => {
  const one = {
    name: "a",
    address: "100.64.3.10",
    port: 1,
    protocol: "TCP" as const,
    targetAddress: "10.0.0.1",
    targetPort: 1,
  };
  const two = { ...one, name: "b", port: 2 };
  assert.equal(
    renderNatRules([two, one], [], "100.64.3.0/24"),
    renderNatRules([one, two], [], "100.64.3.0/24"),
  );
});
