import { listOf, textOf, type ViciSection } from "../vici/message.ts";
import { Exposition, type Sample } from "./exposition.ts";
import type { ChildSa, DaemonState, IkeSa, SaState } from "./sa_model.ts";

/** What happened since the process started, by tunnel. */
export interface CharonCounters {
  readonly rekeys: Map<string, number>;
  readonly rekeyFailures: Map<string, number>;
  readonly dpdTimeouts: Map<string, number>;
  readonly initiations: Map<string, number>;
  pskPushes: number;
  /** Epoch seconds of the last load without a failure; 0 before. */
  configAppliedAt: number;
}

/** Counters at zero. */
export function createCounters(): CharonCounters {
  return {
    rekeys: new Map(),
    rekeyFailures: new Map(),
    dpdTimeouts: new Map(),
    initiations: new Map(),
    pskPushes: 0,
    configAppliedAt: 0,
  };
}

/** Adds one. */
export function count(counter: Map<string, number>, tunnel: string): void {
  counter.set(tunnel, (counter.get(tunnel) ?? 0) + 1);
}

/** INSTALLED, REKEYED and REKEYING are 0, ESTABLISHED 1, no state 2, everything else 3. */
function statusOf(state: string): number {
  if (state === "INSTALLED" || state === "REKEYED" || state === "REKEYING") return 0;
  return state === "ESTABLISHED" ? 1 : state === "" ? 2 : 3;
}

/** A number of charon; where the key is missing, 0. */
const value = (from: ViciSection, key: string): number => {
  const parsed = Number(textOf(from, key) ?? 0);
  return Number.isNaN(parsed) ? 0 : parsed;
};
const flag = (from: ViciSection, key: string): number => textOf(from, key) === "yes" ? 1 : 0;

type Reader<T> = readonly [
  name: string,
  help: string,
  labels: (sa: T) => Readonly<Record<string, string>>,
  read: (sa: T) => number,
];

/** A CHILD_SA with the IKE_SA that it is listed under. */
interface Pair {
  readonly ike: IkeSa;
  readonly child: ChildSa;
}

const ikeLabels = (ike: IkeSa): Record<string, string> => ({ ike_name: ike.name, ike_id: String(ike.id) });
const childLabels = ({ ike, child }: Pair): Record<string, string> => ({
  ...ikeLabels(ike),
  child_name: child.name,
  child_id: String(child.id),
});
const selectorLabels = (pair: Pair): Record<string, string> => ({
  ...childLabels(pair),
  local_ts: listOf(pair.child.raw, "local-ts").join(";"),
  remote_ts: listOf(pair.child.raw, "remote-ts").join(";"),
});
const withAlgorithm = (
  labels: Record<string, string>,
  raw: ViciSection,
  key: string,
): Record<string, string> => ({
  ...labels,
  algorithm: textOf(raw, key) ?? "",
  dh_group: textOf(raw, "dh-group") ?? "",
});

/** Names, labels and values of torilabs/ipsec-prometheus-exporter, so that what was built for it works unchanged. */
const IKE: readonly Reader<IkeSa>[] = [
  ["version", "IKE version", ikeLabels, (ike) => value(ike.raw, "version")],
  [
    "status",
    "Status of this IKE_SA: 1 established, 0 rekeying, 2 unknown, 3 other",
    ikeLabels,
    (ike) => statusOf(ike.state),
  ],
  ["initiator", "Whether this side initiated", ikeLabels, (ike) => flag(ike.raw, "initiator")],
  ["nat_local", "Whether the local endpoint is behind a NAT", ikeLabels, (ike) => flag(ike.raw, "nat-local")],
  [
    "nat_remote",
    "Whether the remote endpoint is behind a NAT",
    ikeLabels,
    (ike) => flag(ike.raw, "nat-remote"),
  ],
  [
    "nat_fake",
    "Whether a NAT was faked to force UDP encapsulation",
    ikeLabels,
    (ike) => flag(ike.raw, "nat-fake"),
  ],
  ["nat_any", "Whether any endpoint is behind a NAT", ikeLabels, (ike) => flag(ike.raw, "nat-any")],
  [
    "encryption_key_size",
    "Key size of the encryption algorithm",
    (ike) => withAlgorithm(ikeLabels(ike), ike.raw, "encr-alg"),
    (ike) => value(ike.raw, "encr-keysize"),
  ],
  [
    "integrity_key_size",
    "Key size of the integrity algorithm",
    (ike) => withAlgorithm(ikeLabels(ike), ike.raw, "integ-alg"),
    (ike) => value(ike.raw, "integ-keysize"),
  ],
  [
    "established_seconds",
    "Seconds since the IKE_SA was established",
    ikeLabels,
    (ike) => value(ike.raw, "established"),
  ],
  ["rekey_seconds", "Seconds until the IKE_SA is rekeyed", ikeLabels, (ike) => value(ike.raw, "rekey-time")],
  [
    "reauth_seconds",
    "Seconds until the IKE_SA is reauthenticated",
    ikeLabels,
    (ike) => value(ike.raw, "reauth-time"),
  ],
  ["children_size", "Number of CHILD_SAs", ikeLabels, (ike) => ike.children.length],
];
const CHILD: readonly Reader<Pair>[] = [
  [
    "status",
    "Status of this CHILD_SA: 0 installed or rekeying, 2 unknown, 3 other",
    selectorLabels,
    ({ child }) => statusOf(child.state),
  ],
  ["encap", "Whether UDP encapsulation is used", childLabels, ({ child }) => flag(child.raw, "encap")],
  [
    "encryption_key_size",
    "Key size of the encryption algorithm",
    (pair) => withAlgorithm(childLabels(pair), pair.child.raw, "encr-alg"),
    ({ child }) => value(child.raw, "encr-keysize"),
  ],
  [
    "integrity_key_size",
    "Key size of the integrity algorithm",
    (pair) => withAlgorithm(childLabels(pair), pair.child.raw, "integ-alg"),
    ({ child }) => value(child.raw, "integ-keysize"),
  ],
  ["inbound_bytes", "Bytes received", selectorLabels, ({ child }) => value(child.raw, "bytes-in")],
  ["inbound_packets", "Packets received", selectorLabels, ({ child }) => value(child.raw, "packets-in")],
  [
    "last_inbound_seconds",
    "Seconds since the last received packet",
    selectorLabels,
    ({ child }) => value(child.raw, "use-in"),
  ],
  ["outbound_bytes", "Bytes sent", selectorLabels, ({ child }) => value(child.raw, "bytes-out")],
  ["outbound_packets", "Packets sent", selectorLabels, ({ child }) => value(child.raw, "packets-out")],
  [
    "last_outbound_seconds",
    "Seconds since the last sent packet",
    selectorLabels,
    ({ child }) => value(child.raw, "use-out"),
  ],
  [
    "established_seconds",
    "Seconds since the CHILD_SA was established",
    childLabels,
    ({ child }) => value(child.raw, "install-time"),
  ],
  [
    "rekey_seconds",
    "Seconds until the CHILD_SA is rekeyed",
    childLabels,
    ({ child }) => value(child.raw, "rekey-time"),
  ],
  [
    "lifetime_seconds",
    "Seconds until the CHILD_SA expires",
    childLabels,
    ({ child }) => value(child.raw, "life-time"),
  ],
];

const STATES: readonly SaState[] = ["DOWN", "CONNECTING", "ESTABLISHED", "REKEYING", "ROUTED", "UNKNOWN"];

/** An idle trap is no alarm: the tunnel comes up with its first packet. */
const UP: ReadonlySet<SaState> = new Set<SaState>(["ESTABLISHED", "REKEYING", "ROUTED"]);

/** Errors of the kernel's XFRM, as /proc/net/xfrm_stat names them. */
export function parseXfrmStat(text: string): [string, number][] {
  return text.split("\n").map((line) => line.trim().split(/\s+/)).filter(([name]) => name?.startsWith("Xfrm"))
    .map(([name, count]) => [name!, Number(count)]);
}

/** The exposition of one charon: the names above, and what they lack. */
export function renderMetrics({ state, sas, counters, xfrmStat }: {
  state: DaemonState;
  sas: readonly IkeSa[];
  counters: CharonCounters;
  xfrmStat?: readonly (readonly [string, number])[];
}): string {
  const out = new Exposition();
  out.add("strongswan_ike_count", "gauge", "Number of known IKE_SAs", [[{}, sas.length]]);
  for (const [name, help, labels, read] of IKE) {
    out.add(`strongswan_ike_${name}`, "gauge", help, sas.map((ike): Sample => [labels(ike), read(ike)]));
  }
  const pairs = sas.flatMap((ike) => ike.children.map((child): Pair => ({ ike, child })));
  for (const [name, help, labels, read] of CHILD) {
    out.add(`strongswan_sa_${name}`, "gauge", help, pairs.map((pair): Sample => [labels(pair), read(pair)]));
  }

  const { tunnels } = state;
  const byTunnel = (counter: ReadonlyMap<string, number>): Sample[] =>
    tunnels.map(({ name }): Sample => [{ tunnel: name }, counter.get(name) ?? 0]);
  out.add("ipsec_vici_up", "gauge", "Whether charon answers", [[{}, state.connected ? 1 : 0]]);
  out.add(
    "ipsec_tunnel_up",
    "gauge",
    "Whether every child of a configured tunnel is up, or an idle trap; 0 also where there is no SA at all",
    tunnels.map((tunnel): Sample => [{ tunnel: tunnel.name }, UP.has(tunnel.state) ? 1 : 0]),
  );
  out.add(
    "ipsec_tunnel_state",
    "gauge",
    "1 for the state that a configured tunnel is in",
    tunnels.flatMap((tunnel) =>
      STATES.map((name): Sample => [{ tunnel: tunnel.name, state: name }, tunnel.state === name ? 1 : 0])
    ),
  );
  out.add(
    "ipsec_child_up",
    "gauge",
    "Whether a configured child is up, or an idle trap",
    tunnels.flatMap((tunnel) =>
      tunnel.children.map((child): Sample => [
        { tunnel: tunnel.name, child: child.name },
        UP.has(child.state) ? 1 : 0,
      ])
    ),
  );
  out.add(
    "ipsec_sa_duplicates",
    "gauge",
    "Installed CHILD_SAs beyond the one that counts",
    tunnels.map((tunnel): Sample => [
      { tunnel: tunnel.name },
      tunnel.children.reduce((sum, child) => sum + child.duplicates, 0),
    ]),
  );
  out.add("ipsec_rekeys_total", "counter", "Rekeyed IKE_SAs and CHILD_SAs", byTunnel(counters.rekeys));
  out.add("ipsec_rekey_failures_total", "counter", "Rekeyings that failed", byTunnel(counters.rekeyFailures));
  out.add(
    "ipsec_dpd_timeouts_total",
    "counter",
    "Times that the peer stopped answering",
    byTunnel(counters.dpdTimeouts),
  );
  out.add("ipsec_initiations_total", "counter", "Attempts of the watchdog", byTunnel(counters.initiations));
  out.add("ipsec_psk_pushes_total", "counter", "Pre-shared keys given to charon", [[{}, counters.pskPushes]]);
  out.add(
    "ipsec_config_applied_timestamp_seconds",
    "gauge",
    "When the configuration was last applied as a whole",
    [
      [{}, counters.configAppliedAt],
    ],
  );
  if (xfrmStat !== undefined) {
    out.add(
      "ipsec_xfrm_errors_total",
      "counter",
      "Packets that the kernel's XFRM dropped, by reason",
      xfrmStat.map(([name, count]): Sample => [{ reason: name }, count]),
    );
  }
  return out.toString();
}
