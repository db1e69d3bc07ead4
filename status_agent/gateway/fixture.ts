// Builders for this folder's tests.
import { type AgentConfig, renderAgentConfig } from "../../src/api/agent_config.ts";
import type { DaemonState, TunnelState } from "../../src/charon/sa_model.ts";
import { type SwanctlLiteral, swanctlSection } from "../../src/swanctl/model.ts";
import { renderSwanctl } from "../../src/swanctl/render.ts";
import { type GatewayConfig, parseGatewayConfig } from "./config.ts";

/** agent.json of a gateway with the tunnels "branch" (shared key) and "hq" (own key). */
export function agentConfig(changes: Partial<AgentConfig> = {}): AgentConfig {
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

/** A connection as the controller renders it. */
export function connection(changes: SwanctlLiteral = {}): SwanctlLiteral {
  return {
    version: "2",
    local_addrs: ["10.0.0.7"],
    remote_addrs: ["203.0.113.250"],
    if_id_in: "1042",
    if_id_out: "1042",
    local: { auth: "psk", id: "198.51.100.7" },
    remote: { auth: "psk", id: "partner.example" },
    children: {
      net: {
        local_ts: ["100.64.0.0/24"],
        remote_ts: ["192.168.77.0/24"],
        esp_proposals: ["aes256gcm16"],
        start_action: "start",
      },
    },
    ...changes,
  };
}

/** The text of a swanctl.conf with these connections. */
export function swanctlText(connections: Readonly<Record<string, SwanctlLiteral>>): string {
  return renderSwanctl(swanctlSection({ connections }));
}

/** Both files, parsed: tunnels "branch" and "hq". */
export function gatewayConfig(
  changes: Partial<AgentConfig> = {},
  connections: Readonly<Record<string, SwanctlLiteral>> = {
    branch: connection(),
    hq: connection({ if_id_in: "1043", if_id_out: "1043", remote: { auth: "psk", id: "hq.example" } }),
  },
): GatewayConfig {
  return parseGatewayConfig(renderAgentConfig(agentConfig(changes)), swanctlText(connections));
}

/** A tunnel as charon's driver reports it. */
export function tunnelState(changes: Partial<TunnelState> = {}): TunnelState {
  return {
    name: "branch",
    state: "ESTABLISHED",
    ikeState: "ESTABLISHED",
    since: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
    peerAddress: "203.0.113.250",
    children: [{ name: "net", state: "ESTABLISHED", bytesIn: 1, bytesOut: 2, duplicates: 0 }],
    ...changes,
  };
}

/** A state of the daemon with these tunnels. */
export function daemonState(...tunnels: TunnelState[]): DaemonState {
  return { connected: true, life: 1, tunnels, at: 0 };
}
