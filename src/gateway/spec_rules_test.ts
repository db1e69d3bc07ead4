import assert from "node:assert/strict";
import { gateway, tunnel } from "./gateway_builder.ts";
import type { GatewayOptions } from "./options.ts";
import { type ClusterNetwork, notAllowed, specProblem } from "./spec_rules.ts";

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
    openstack: {
      networkID: ID,
      allowedNetworkIDs: [],
      allowedFloatingIPs: [],
      allowedRoutedCIDRs: [],
      ...openstack,
    },
  };
}

const NETWORK: ClusterNetwork = {
  nodes: [{
    metadata: { name: "node1" },
    spec: { podCIDRs: ["10.244.1.0/24"] },
    status: { addresses: [{ type: "InternalIP", address: "172.30.0.11" }] },
  }],
  apiServer: "10.96.0.1",
  pools: ["100.64.0.0/16"],
};

Deno.test("specProblem() finds nothing when the spec is plain", () => {
  assert.equal(specProblem(gateway(), NETWORK), undefined);
});

Deno.test("specProblem() names both tunnels when they have the same peer", () => {
  const twins = [
    tunnel(),
    tunnel({ name: "oslo", peer: { address: "203.0.113.250", port: 500, id: "203.0.113.250" } }),
  ];
  const problem = specProblem(gateway({ tunnels: twins }), NETWORK);
  assert.equal(problem?.reason, "DuplicatePeer");
  assert.match(problem?.message ?? "", /berlin and oslo/);
});

Deno.test("specProblem() names the right subnet when one has host bits", () => {
  const problem = specProblem(
    gateway({ tunnels: [tunnel({ remoteSubnets: ["192.168.77.5/24"] })] }),
    NETWORK,
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
  assert.equal(specProblem(gateway({ reverseExposures: reverse }), NETWORK)?.reason, "InvalidSpec");
});

Deno.test("notAllowed() allows with the operator's credentials only what is on its lists", () => {
  const named = gateway({ openstack: { networkID: OTHER } });
  assert.equal(notAllowed(named, options())?.reason, "NotAllowed");
  assert.equal(notAllowed(named, options({ allowedNetworkIDs: [OTHER] })), undefined);
  const pinned = gateway({ endpoint: { floatingIP: "203.0.113.9" } });
  assert.equal(notAllowed(pinned, options())?.reason, "NotAllowed");
  assert.equal(notAllowed(pinned, options({ allowedFloatingIPs: ["203.0.113.9"] })), undefined);
  const own = gateway({
    openstack: { networkID: OTHER, cloudSecretRef: { name: "cloud" } },
    endpoint: { floatingIP: "203.0.113.9" },
  });
  assert.equal(notAllowed(own, options()), undefined);
});

Deno.test("notAllowed() refuses other images when the operator does not allow them", () => {
  const other = gateway({ images: { strongswan: "evil" } });
  assert.equal(notAllowed(other, options())?.reason, "NotAllowed");
  assert.equal(notAllowed(other, { ...options(), allowImageOverride: true }), undefined);
});

Deno.test("notAllowed() lets no route onto the shared router but those of the operator's list", () => {
  const routed = gateway({ mode: "routed", tunnels: [tunnel({ localSubnets: ["10.0.0.0/24"] })] });
  assert.equal(notAllowed(routed, options())?.reason, "NotAllowed");
  assert.equal(notAllowed(routed, options({ allowedRoutedCIDRs: ["192.168.0.0/16"] })), undefined);
  const all = gateway({ mode: "routed", tunnels: [tunnel({ remoteSubnets: ["0.0.0.0/0"] })] });
  assert.equal(notAllowed(all, options({ allowedRoutedCIDRs: ["192.168.0.0/16"] }))?.reason, "NotAllowed");
});

Deno.test("specProblem() names what of the cluster a remote subnet would cut off", () => {
  const cases = [["10.0.0.0/8", /API server|pod network/], ["172.30.0.0/24", /node node1/], [
    "100.64.5.0/24",
    /service CIDR pool/,
  ]] as const;
  for (const [cidr, what] of cases) {
    assert.match(
      specProblem(gateway({ tunnels: [tunnel({ remoteSubnets: [cidr] })] }), NETWORK)?.message ?? "",
      what,
    );
  }
});

Deno.test("specProblem() names both tunnels when one peer identity has two keys", () => {
  const peer = { address: "203.0.113.250", port: 500, id: "fw" };
  const two = [
    tunnel({ peer }),
    tunnel({ name: "oslo", peer: { ...peer, address: "203.0.113.251" }, psk: { key: "oslo" } }),
  ];
  assert.match(
    specProblem(gateway({ tunnels: two }), NETWORK)?.message ?? "",
    /berlin and oslo .*different keys \(psk, oslo\)/,
  );
});

Deno.test("specProblem() refuses digits and dots that are no address", () => {
  const problem = specProblem(
    gateway({ tunnels: [tunnel({ peer: { address: "999.1.1.1", port: 500 } })] }),
    NETWORK,
  );
  assert.match(problem?.message ?? "", /999\.1\.1\.1 is no IPv4 address/);
});
