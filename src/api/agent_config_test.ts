import assert from "node:assert/strict";
import { type AgentConfig, parseAgentConfig, renderAgentConfig } from "./agent_config.ts";

function agentConfig(changes: Partial<AgentConfig> = {}): AgentConfig {
  return {
    gateway: "acme",
    namespace: "tenant",
    mode: "nat",
    dataPlane: "auto",
    port: {
      fixedIP: "10.0.0.7",
      prefixLength: 24,
      gatewayIP: "10.0.0.1",
      macAddress: "fa:16:3e:00:00:01",
      mtu: 1450,
    },
    serviceCIDR: "100.64.0.0/24",
    snatAddress: "100.64.0.1",
    psk: { key: "psk" },
    tunnels: [{ name: "branch" }, { name: "hq", pskKey: "hq-psk" }],
    ...changes,
  };
}

Deno.test("parseAgentConfig() gives back what renderAgentConfig() wrote", () => {
  for (const config of [agentConfig(), agentConfig({ mtu: 1300, mss: 1200, dataPlane: "xfrm" })]) {
    assert.deepEqual(parseAgentConfig(renderAgentConfig(config)), { config });
  }
});

Deno.test("renderAgentConfig() writes the same bytes when the tunnels come in another order", () => {
  const config = agentConfig();
  const turned = agentConfig({ tunnels: [...config.tunnels].reverse() });
  assert.equal(renderAgentConfig(turned), renderAgentConfig(config));
});

Deno.test("parseAgentConfig() names every problem with its path when several fields are wrong", () => {
  const text = JSON.stringify({
    ...agentConfig(),
    mode: "bridge",
    port: { ...agentConfig().port, mtu: "1450", colour: "red" },
    psk: { key: "../etc/passwd" },
    tunnels: [{ name: "a" }, { name: "a" }, "b"],
    serviceCIDR: undefined,
  });
  assert.deepEqual(parseAgentConfig(text).problems, [
    "Cannot use agent.json: port.colour is not a known field",
    'Cannot use agent.json: mode must be one of nat, routed, current value is "bridge"',
    'Cannot use agent.json: port.mtu must be a whole number from 576 to 65535, current value is "1450"',
    "Cannot use agent.json: serviceCIDR must be an IPv4 CIDR, current value is missing",
    'Cannot use agent.json: psk.key must be a key of the Secret, current value is "../etc/passwd"',
    "Cannot use agent.json: tunnels[2] must be an object",
    'Cannot use agent.json: tunnels has "a" more than once',
  ]);
});

Deno.test("parseAgentConfig() says so when the text is not JSON or not an object", () => {
  assert.match(parseAgentConfig("{").problems?.[0] ?? "", /^Cannot use agent\.json: it is not JSON/);
  assert.deepEqual(parseAgentConfig("[]").problems, ["Cannot use agent.json: it is not an object"]);
});
