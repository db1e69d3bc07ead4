// status.tunnels, status.agent and status.dataPlane from what the agent knows. Pure.
import { API_VERSION, GATEWAY_KIND, type IPsecGatewayStatus } from "../../src/api/ipsec_gateway.ts";
import type { DaemonState, TunnelState } from "../../src/charon/sa_model.ts";
import type { Driver } from "../../src/dataplane/network.ts";

/** What the agent knows at one moment. */
export interface Snapshot {
  readonly daemon: DaemonState;
  readonly driver: Driver | undefined;
  /** What is wrong with the pod, sorted. */
  readonly problems: readonly string[];
  readonly podName: string;
}

/** The object for server-side apply: exactly the fields that are the agent's. */
export interface StatusPatch {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly status: Pick<IPsecGatewayStatus, "tunnels" | "agent" | "dataPlane">;
}

/** What the CRD takes (`maxItems`). */
const MAX_PROBLEMS = 16;

type TunnelStatus = NonNullable<IPsecGatewayStatus["tunnels"]>[number];

/** RFC 3339 in whole seconds, as the API server stores times. */
export function timestamp(epochMs: number): string {
  return new Date(epochMs).toISOString().replace(/\.\d{3}Z$/, "Z");
}

function tunnelStatus(tunnel: TunnelState): TunnelStatus {
  const { name, state, ikeState, children, since, peerAddress, lastError } = tunnel;
  return {
    name,
    state,
    ikeState,
    since: timestamp(since),
    ...(peerAddress === undefined ? {} : { peerAddress }),
    ...(lastError === undefined ? {} : { lastError }),
    children: children.map((child) => ({
      name: child.name,
      state: child.state,
      bytesIn: child.bytesIn,
      bytesOut: child.bytesOut,
    })),
  };
}

/** What to apply to the gateway `namespace/name`; `now` in epoch milliseconds. */
export function statusPatch(
  snapshot: Snapshot,
  { name, namespace, now }: { readonly name: string; readonly namespace: string; readonly now: number },
): StatusPatch {
  const { daemon, driver, problems, podName } = snapshot;
  return {
    apiVersion: API_VERSION,
    kind: GATEWAY_KIND,
    metadata: { name, namespace },
    status: {
      agent: {
        podName,
        lastHeartbeatTime: timestamp(now),
        ...(problems.length ? { problems: problems.slice(0, MAX_PROBLEMS) } : {}),
      },
      ...(driver === undefined ? {} : { dataPlane: driver }),
      tunnels: daemon.tunnels.map(tunnelStatus),
    },
  };
}

/** What makes a snapshot worth a write of its own: everything but byte counts and the time. */
export function substance(snapshot: Snapshot): string {
  const { daemon, driver, problems, podName } = snapshot;
  const tunnels = daemon.tunnels.map((tunnel) => ({
    ...tunnelStatus(tunnel),
    children: tunnel.children.map(({ name, state }) => ({ name, state })),
  }));
  return JSON.stringify({ tunnels, driver, problems, podName });
}

/** Something that happened to a tunnel, for an Event. */
export interface Transition {
  readonly type: "Normal" | "Warning";
  readonly reason: "TunnelUp" | "TunnelDown";
  readonly note: string;
}

const isUp = (state: string) => state === "ESTABLISHED" || state === "REKEYING";

/**
 * What changed since the last known states (by tunnel; the caller keeps them and passes them again), which are brought
 * up to date. UNKNOWN says nothing about a tunnel and changes nothing.
 */
export function transitions(known: Map<string, boolean>, tunnels: readonly TunnelState[]): Transition[] {
  const found: Transition[] = [];
  for (const { name, state, peerAddress, lastError } of tunnels) {
    if (state === "UNKNOWN") continue;
    const up = isUp(state);
    const before = known.get(name);
    if (up && before !== true) {
      found.push({
        type: "Normal",
        reason: "TunnelUp",
        note: `Tunnel ${name} is up${peerAddress ? ` with ${peerAddress}` : ""}`,
      });
    } else if (!up && before === true) {
      found.push({
        type: "Warning",
        reason: "TunnelDown",
        note: `Tunnel ${name} is ${state}${lastError ? `: ${lastError}` : ""}`,
      });
    }
    known.set(name, up);
  }
  const names = new Set(tunnels.map(({ name }) => name));
  for (const name of known.keys()) if (!names.has(name)) known.delete(name);
  return found;
}
