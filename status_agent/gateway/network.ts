// The network of this gateway in the data plane's words.
import { parseRange, selectorRange } from "../../src/dataplane/cidr.ts";
import { mssOf, tunnelMtu } from "../../src/dataplane/mtu.ts";
import type { Driver, Network, TunnelNetwork } from "../../src/dataplane/network.ts";
import type { LoadConnection } from "../../src/swanctl/translate.ts";
import type { GatewayConfig } from "./config.ts";
import { children, list, text } from "./connection.ts";

/** The Neutron port's NIC in the pod, by the NetworkAttachmentDefinition. */
export const UPLINK = "net1";

function tunnelOf({ name, message }: LoadConnection): TunnelNetwork {
  const ranges = (key: string) =>
    children(message).flatMap(([, child]) => list(child, key)).map(selectorRange)
      .filter((range) => range !== undefined);
  const ifId = Number(text(message, "if_id_out") ?? 0);
  return {
    name,
    ifId,
    local: ranges("local_ts"),
    remote: ranges("remote_ts"),
    espProposals: children(message).flatMap(([, child]) => {
      const proposals = list(child, "esp_proposals");
      return proposals.length ? proposals : ["default"];
    }),
  };
}

/** Throws RangeError when a tunnel has no if_id and the driver needs one. */
export function networkOf({ agent, connections }: GatewayConfig, driver: Driver): Network {
  const tunnels = connections.map(tunnelOf);
  const nameless = tunnels.find(({ ifId }) => !Number.isInteger(ifId) || ifId <= 0);
  if (driver === "xfrm" && nameless) {
    throw new RangeError(
      `Cannot make the interface of tunnel ${nameless.name}: its if_id_out is ${nameless.ifId}`,
    );
  }
  const mtu = agent.mtu ?? tunnelMtu(agent.port.mtu, tunnels.flatMap(({ espProposals }) => espProposals));
  return {
    driver,
    mode: agent.mode,
    uplink: {
      device: UPLINK,
      address: agent.port.fixedIP,
      prefixLength: agent.port.prefixLength,
      gateway: agent.port.gatewayIP,
      mtu: agent.port.mtu,
    },
    ownAddress: agent.snatAddress,
    serviceRange: parseRange(agent.serviceCIDR)!,
    tunnels,
    mtu,
    mss: agent.mss ?? mssOf(mtu),
  };
}
