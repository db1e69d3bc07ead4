import assert from "node:assert/strict";
import { FLAGS, gatewayOptions } from "./mod.ts";
import { parseFlags } from "./src/process/flags.ts";

const TEXT = { program: "controller", version: "0", about: "", env: () => undefined };
const NEEDED = ["--service-cidr-pool=100.64.0.0/16", "--image-strongswan=s", "--image-status-agent=a"];

function problems(...args: string[]): string {
  const { exit } = parseFlags(FLAGS, { ...TEXT, args: [...NEEDED, ...args] });
  assert.equal(exit?.code, 2);
  return exit.text;
}

Deno.test("gatewayOptions() leaves out what is not given", () => {
  const { values } = parseFlags(FLAGS, { ...TEXT, args: NEEDED });
  assert.ok(values);
  assert.deepEqual(gatewayOptions(values).openstack, { allowedNetworkIDs: [], allowedFloatingIPs: [] });
});

Deno.test("gatewayOptions() carries what is given", () => {
  const { values } = parseFlags(FLAGS, {
    ...TEXT,
    args: [...NEEDED, "--agent-interval=5s", "--allowed-floating-ips=203.0.113.9,203.0.113.8"],
  });
  assert.ok(values);
  const options = gatewayOptions(values);
  assert.equal(options.agentIntervalSeconds, 5);
  assert.deepEqual(options.openstack.allowedFloatingIPs, ["203.0.113.9", "203.0.113.8"]);
});

Deno.test("FLAGS name one problem a line when several values are wrong", () => {
  const lines = problems(
    "--network-id=x",
    "--workers=0",
    "--data-plane=magic",
    "--service-cidr-pool=10.0.0.0/25",
  ).split("\n");
  assert.equal(lines.length, 4);
  for (const flag of ["network-id", "workers", "data-plane", "service-cidr-pool"]) {
    assert.ok(lines.some((line) => line.includes(`--${flag}`)), flag);
  }
});
