import assert from "node:assert/strict";
import { gateway, tunnel } from "../gateway_builder.ts";
import type { GatewayOptions } from "../options.ts";
import { specProblem } from "./validate.ts";

const ID = "11111111-1111-4111-8111-111111111111";
const OTHER = "22222222-2222-4222-8222-222222222222";

function options(openstack: Partial<GatewayOptions["openstack"]> = {}): GatewayOptions {
  return {
    serviceCIDRPool: ["100.64.0.0/16"],
    images: { strongswan: "s", statusAgent: "a" },
    allowImageOverride: false,
    dataPlane: "auto",
    renderAhead: true,
    agentIntervalSeconds: 15,
    nodeGraceMs: 60_000,
    openstack: { networkID: ID, allowedNetworkIDs: [], allowedFloatingIPs: [], ...openstack },
  };
}

Deno.test("specProblem() finds nothing when the spec is plain", () => {
  assert.equal(specProblem(gateway(), options()), undefined);
});

Deno.test("specProblem() names both tunnels when they have the same peer", () => {
  const twins = [
    tunnel(),
    tunnel({ name: "oslo", peer: { address: "203.0.113.250", port: 500, id: "203.0.113.250" } }),
  ];
  const problem = specProblem(gateway({ tunnels: twins }), options());
  assert.equal(problem?.reason, "DuplicatePeer");
  assert.match(problem?.message ?? "", /berlin and oslo/);
});

Deno.test("specProblem() names the right subnet when one has host bits", () => {
  const problem = specProblem(
    gateway({ tunnels: [tunnel({ remoteSubnets: ["192.168.77.5/24"] })] }),
    options(),
  );
  assert.match(problem?.message ?? "", /Tunnel berlin: .*the subnet is 192\.168\.77\.0\/24/);
});

Deno.test("specProblem() refuses a reverse exposure to an address behind no tunnel", () => {
  const reverse = [{
    name: "api",
    port: 80,
    protocol: "TCP" as const,
    remoteAddress: "10.9.9.9",
    remotePort: 80,
  }];
  assert.equal(specProblem(gateway({ reverseExposures: reverse }), options())?.reason, "InvalidSpec");
});

Deno.test("specProblem() allows with the operator's credentials only what is on its lists", () => {
  const named = gateway({ openstack: { networkID: OTHER } });
  assert.equal(specProblem(named, options())?.reason, "NotAllowed");
  assert.equal(specProblem(named, options({ allowedNetworkIDs: [OTHER] })), undefined);
  const pinned = gateway({ endpoint: { floatingIP: "203.0.113.9" } });
  assert.equal(specProblem(pinned, options())?.reason, "NotAllowed");
  assert.equal(specProblem(pinned, options({ allowedFloatingIPs: ["203.0.113.9"] })), undefined);
  const own = gateway({
    openstack: { networkID: OTHER, cloudSecretRef: { name: "cloud" } },
    endpoint: { floatingIP: "203.0.113.9" },
  });
  assert.equal(specProblem(own, options()), undefined);
});

Deno.test("specProblem() refuses other images when the operator does not allow them", () => {
  const other = gateway({ images: { strongswan: "evil" } });
  assert.equal(specProblem(other, options())?.reason, "NotAllowed");
  assert.equal(specProblem(other, { ...options(), allowImageOverride: true }), undefined);
});
