// swanctl.conf of a gateway: connections only, never a key. Names are the tunnels' names.
import type { FloatingIPStatus, IPsecGateway, PortStatus, TunnelSpec } from "../../api/ipsec_gateway.ts";
import { type SwanctlLiteral, swanctlSection } from "../../swanctl/model.ts";
import { renderSwanctl } from "../../swanctl/render.ts";
import type { PeerAddresses } from "../context.ts";
import { tunnelNumbers } from "../numbers.ts";

export interface SwanctlInput {
  readonly gateway: IPsecGateway;
  readonly port: PortStatus;
  readonly floatingIP: Pick<FloatingIPStatus, "address">;
  readonly serviceCIDR: string;
  readonly peers: PeerAddresses;
}

interface Child {
  readonly name: string;
  readonly localSubnets?: readonly string[];
  readonly remoteSubnets?: readonly string[];
  readonly esp?: TunnelSpec["esp"];
}

/** A tunnel's CHILD_SAs; one without a list has a single one of the tunnel's own name. */
export function childrenOf(tunnel: TunnelSpec): readonly Child[] {
  return tunnel.children ?? [tunnel];
}

function child(
  { localSubnets, remoteSubnets, esp }: Child,
  tunnel: TunnelSpec,
  serviceCIDR: string,
): SwanctlLiteral {
  const settings = esp ?? tunnel.esp;
  return {
    local_ts: localSubnets ?? [serviceCIDR],
    remote_ts: remoteSubnets ?? [],
    esp_proposals: settings?.proposals,
    rekey_time: settings?.rekeyTime,
    start_action: tunnel.startAction,
    // charon must not restart what the watchdog leaves alone: only a tunnel that is to be up is restarted on DPD.
    dpd_action: tunnel.startAction === "start" ? "restart" : "clear",
    close_action: "none",
  };
}

function connection(tunnel: TunnelSpec, input: SwanctlInput, number: number): SwanctlLiteral {
  const { gateway, port, floatingIP, serviceCIDR, peers } = input;
  const { ike, peer } = tunnel;
  return {
    version: ike.version,
    local_addrs: [port.fixedIP],
    remote_addrs: peers.get(tunnel.name) ?? [],
    remote_port: peer.port === 500 ? undefined : peer.port,
    proposals: ike.proposals,
    rekey_time: ike.rekeyTime,
    dpd_delay: ike.dpdDelay,
    encap: ike.encapsulation === "force",
    fragmentation: ike.fragmentation,
    // Otherwise charon moves a live SA to eth0 when net1 goes away, past the fence.
    mobike: false,
    unique: "replace",
    if_id_in: number,
    if_id_out: number,
    local: { auth: "psk", id: gateway.spec.endpoint?.localID ?? floatingIP.address },
    remote: { auth: "psk", id: peer.id ?? peer.address },
    children: Object.fromEntries(
      [...childrenOf(tunnel)].sort((a, b) => (a.name < b.name ? -1 : 1)).map((
        one,
      ) => [one.name, child(one, tunnel, serviceCIDR)]),
    ),
  };
}

/** The file, byte-stable: the same input gives the same bytes, whatever the order of the spec's lists of names. */
export function renderSwanctlConf(input: SwanctlInput): string {
  const numbers = tunnelNumbers(input.gateway.spec.tunnels);
  const tunnels = [...input.gateway.spec.tunnels].sort((a, b) => (a.name < b.name ? -1 : 1));
  return renderSwanctl(swanctlSection({
    connections: Object.fromEntries(
      tunnels.map((tunnel) => [tunnel.name, connection(tunnel, input, numbers.get(tunnel.name) ?? 0)]),
    ),
  }));
}
