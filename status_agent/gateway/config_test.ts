import assert from "node:assert/strict";
import { renderAgentConfig } from "../../src/api/agent_config.ts";
import { parseGatewayConfig, readGatewayConfig } from "./config.ts";
import { agentConfig, connection, swanctlText } from "./fixture.ts";

const agentText = renderAgentConfig(agentConfig());

Deno.test("parseGatewayConfig() refuses two files that speak of different tunnels", () => {
  assert.throws(
    () => parseGatewayConfig(agentText, swanctlText({ branch: connection() })),
    /Cannot use agent\.json with swanctl\.conf: their tunnels differ, \[branch, hq\] and \[branch\]/,
  );
});

Deno.test("parseGatewayConfig() says which file it can't use", () => {
  const whole = swanctlText({ branch: connection(), hq: connection() });
  assert.throws(() => parseGatewayConfig("{}", whole), /Cannot use agent\.json: port must be an object/);
  assert.throws(() => parseGatewayConfig(agentText, whole + "}"), /Cannot use swanctl\.conf: /);
});

Deno.test("readGatewayConfig() reads both files from the version that ..data leads to", async () => {
  const directory = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${directory}/..v1`);
    await Deno.symlink("..v1", `${directory}/..data`);
    // What the kubelet shows beside ..data may be of another version while it swaps.
    await Deno.writeTextFile(`${directory}/agent.json`, "another version");
    await Deno.writeTextFile(`${directory}/..v1/agent.json`, agentText);
    await assert.rejects(readGatewayConfig(directory), /Cannot read .*\/\.\.v1\/swanctl\.conf/);
    await Deno.writeTextFile(
      `${directory}/..v1/swanctl.conf`,
      swanctlText({ branch: connection(), hq: connection() }),
    );
    assert.deepEqual((await readGatewayConfig(directory)).connections.map(({ name }) => name), [
      "branch",
      "hq",
    ]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
