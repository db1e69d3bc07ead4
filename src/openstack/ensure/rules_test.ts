import assert from "node:assert/strict";
import fc from "fast-check";
import type { SecurityGroupRule } from "../neutron.ts";
import { DEFAULT_EGRESS, planRules, type Rule, ruleBody, ruleText } from "./rules.ts";

const IKE: Rule = {
  direction: "ingress",
  ethertype: "IPv4",
  protocol: "udp",
  portMin: 500,
  portMax: 500,
  remoteIPPrefix: "192.0.2.1/32",
};

let serial = 0;
function actual(fields: Partial<SecurityGroupRule>): SecurityGroupRule {
  return {
    id: `rule-${String(++serial).padStart(4, "0")}`,
    direction: "ingress",
    ethertype: "IPv4",
    ...fields,
  };
}

function made(rule: Rule): SecurityGroupRule {
  const { security_group_id: _, ...fields } = ruleBody("g", rule);
  return actual(fields as Partial<SecurityGroupRule>);
}

Deno.test("planRules() adds what is missing and keeps the default egress", () => {
  assert.deepEqual(planRules([], [IKE]).add.map(ruleText), [
    "egress any",
    "egress any",
    "ingress udp 500 from 192.0.2.1/32",
  ]);
  assert.deepEqual(planRules(DEFAULT_EGRESS.map(made), []), { add: [], remove: [] });
});

Deno.test("planRules() knows a rule however Neutron writes it", () => {
  const same = [
    { protocol: "17", port_range_min: 500, port_range_max: 500, remote_ip_prefix: "192.0.2.1/32" },
    { protocol: 17, port_range_min: 500, port_range_max: 500, remote_ip_prefix: "192.0.2.1" },
    {
      protocol: "UDP",
      port_range_min: 500,
      port_range_max: 500,
      remote_ip_prefix: "192.0.2.1/32",
      remote_group_id: null,
    },
  ];
  for (const fields of same) {
    const plan = planRules([...DEFAULT_EGRESS.map(made), actual(fields)], [IKE]);
    assert.deepEqual(plan, { add: [], remove: [] }, JSON.stringify(fields));
  }
  const six: Rule = { ...IKE, ethertype: "IPv6", remoteIPPrefix: "2001:DB8:0:0::1/128" };
  const short = actual({ ...made(six), remote_ip_prefix: "2001:db8::1/128" });
  assert.deepEqual(planRules([...DEFAULT_EGRESS.map(made), short], [six]), { add: [], remove: [] });
  const any: Rule = { direction: "ingress", ethertype: "IPv4", protocol: "icmp" };
  const written = actual({ protocol: "1", remote_ip_prefix: "0.0.0.0/0" });
  assert.deepEqual(planRules([...DEFAULT_EGRESS.map(made), written], [any]), { add: [], remove: [] });
});

Deno.test("planRules() removes foreign rules, also one that differs in a single field or names a group", () => {
  const foreign = [
    made({ ...IKE, portMax: 501 }),
    made({ ...IKE, remoteIPPrefix: "192.0.2.1/31" }),
    made({ ...IKE, direction: "egress" }),
    actual({ protocol: "udp", port_range_min: 500, port_range_max: 500, remote_group_id: "g" }),
    actual({ remote_address_group_id: "a" }),
    actual({}),
  ];
  const plan = planRules([...DEFAULT_EGRESS.map(made), made(IKE), ...foreign], [IKE]);
  assert.deepEqual(plan, { add: [], remove: foreign.map((rule) => rule.id).sort() });
});

Deno.test("planRules() reaches exactly the wanted rules from any state, in one step", () => {
  const rule = fc.record({
    direction: fc.constantFrom("ingress" as const, "egress" as const),
    ethertype: fc.constant("IPv4" as const),
    protocol: fc.constantFrom("udp", "tcp"),
    portMin: fc.constantFrom(1, 2),
    portMax: fc.constantFrom(2, 3),
    remoteIPPrefix: fc.constantFrom("10.0.0.0/8", "192.0.2.1/32"),
  });
  fc.assert(fc.property(fc.array(rule), fc.array(rule), (before, wanted) => {
    const state = before.map(made);
    const plan = planRules(state, wanted);
    const after = [...state.filter(({ id }) => !plan.remove.includes(id)), ...plan.add.map(made)];
    assert.deepEqual(planRules(after, wanted), { add: [], remove: [] });
    const texts = new Set(
      [...wanted, ...DEFAULT_EGRESS].map((one) => JSON.stringify(Object.entries(one).sort())),
    );
    assert.equal(after.length, texts.size);
  }));
});
