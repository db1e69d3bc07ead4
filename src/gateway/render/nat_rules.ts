// nat.rules in the format of iptables-restore: what of the service CIDR leads where, and back.
import { addressAt } from "../../ledger/service_cidr.ts";

/** A partner's way into the cluster: address:port of the service CIDR to an address:port. */
export interface RenderedExposure {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly protocol: "TCP" | "UDP";
  readonly targetAddress: string;
  readonly targetPort: number;
}

/** The cluster's way to a partner's host: a port of the pod to an address:port. */
export interface RenderedReverseExposure {
  readonly name: string;
  readonly podPort: number;
  readonly protocol: "TCP" | "UDP";
  readonly remoteAddress: string;
  readonly remotePort: number;
}

/** The tunnels' interfaces: `ipsec0` of libipsec, `ipsec<if_id>` of xfrm. */
const TUNNEL = "ipsec+";

/**
 * The rules of a gateway in mode nat, byte-stable: sorted by name. In mode routed pass empty lists and no service CIDR:
 * the file is then an empty nat table, which takes away the rules of an earlier mode.
 */
export function renderNatRules(
  exposures: readonly RenderedExposure[],
  reverseExposures: readonly RenderedReverseExposure[],
  serviceCIDR?: string,
): string {
  const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
  const lines = ["*nat", ":PREROUTING ACCEPT [0:0]", ":POSTROUTING ACCEPT [0:0]"];
  for (const exposure of [...exposures].sort(byName)) {
    const protocol = exposure.protocol.toLowerCase();
    lines.push(
      `# exposure ${exposure.name}`,
      `-A PREROUTING -i ${TUNNEL} -d ${exposure.address}/32 -p ${protocol} --dport ${exposure.port} -j DNAT --to-destination ${exposure.targetAddress}:${exposure.targetPort}`,
    );
  }
  for (const exposure of [...reverseExposures].sort(byName)) {
    const protocol = exposure.protocol.toLowerCase();
    lines.push(
      `# reverse exposure ${exposure.name}`,
      `-A PREROUTING -i eth0 -p ${protocol} --dport ${exposure.podPort} -j DNAT --to-destination ${exposure.remoteAddress}:${exposure.remotePort}`,
    );
  }
  if (serviceCIDR !== undefined) {
    lines.push(
      "# partner to cluster: the target answers to the pod",
      "-A POSTROUTING -o eth0 -m conntrack --ctstate DNAT -j MASQUERADE",
      "# cluster to partner: the partner sees the first address of the service CIDR",
      `-A POSTROUTING -o ${TUNNEL} -m conntrack --ctstate DNAT -j SNAT --to-source ${
        addressAt(serviceCIDR, 1)
      }`,
    );
  }
  return [...lines, "COMMIT", ""].join("\n");
}
