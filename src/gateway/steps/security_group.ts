// Step 3: the security group. Only the partners' addresses may send IKE and ESP-in-UDP to the port.
import type { IPsecGateway } from "../../api/ipsec_gateway.ts";
import { ensureSecurityGroup, type Rule } from "../../openstack/ensure/security_group.ts";
import type { PeerAddresses, Step } from "../context.ts";
import { failedOutcome } from "../failure.ts";
import { cloudOf, ownerOf } from "../openstack_owner.ts";

/** IKE and NAT traversal. */
const PORTS = [500, 4500];

/** The rules of the gateway's group, sorted; Neutron's default egress rules stay beside them. */
export function gatewayRules(gateway: IPsecGateway, peers: PeerAddresses): Rule[] {
  const prefixes = new Set<string>();
  for (const tunnel of gateway.spec.tunnels) {
    const own = (peers.get(tunnel.name) ?? []).map((address) => `${address}/32`);
    for (const prefix of tunnel.peer.sourceCIDRs ?? own) prefixes.add(prefix);
  }
  const rules: Rule[] = [];
  for (const remoteIPPrefix of [...prefixes].sort()) {
    for (const port of PORTS) {
      rules.push({
        direction: "ingress",
        ethertype: "IPv4",
        protocol: "udp",
        portMin: port,
        portMax: port,
        remoteIPPrefix,
      });
    }
  }
  if (gateway.spec.mode === "routed") {
    // What the router sends to the gateway for its partners comes from the local subnets.
    for (const remoteIPPrefix of [...localSubnets(gateway)].sort()) {
      rules.push({ direction: "ingress", ethertype: "IPv4", remoteIPPrefix });
    }
  }
  return rules;
}

function localSubnets(gateway: IPsecGateway): Set<string> {
  return new Set(
    gateway.spec.tunnels.flatMap((tunnel) =>
      tunnel.localSubnets ?? tunnel.children?.flatMap((child) => child.localSubnets ?? []) ?? []
    ),
  );
}

export const securityGroup: Step = {
  name: "security group",
  condition: "PortReady",
  async run(context) {
    const { gateway, facts, signal } = context;
    try {
      const rules = gatewayRules(gateway, facts.peers ?? new Map());
      const { id } = await ensureSecurityGroup(cloudOf(context), ownerOf(gateway), { rules, signal });
      facts.securityGroupID = id;
      return { kind: "done" };
    } catch (error) {
      return failedOutcome("EnsureSecurityGroupFailed", error, context);
    }
  },
};
