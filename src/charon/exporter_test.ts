import assert from "node:assert/strict";
import { section } from "../vici/message.ts";
import { causeOfAlert, causeOfLog, countOfLog } from "./errors.ts";
import { Exposition } from "./exposition.ts";
import { createCounters, parseXfrmStat, renderMetrics } from "./exporter.ts";
import { readSas } from "./sa_model.ts";

const SAS = readSas([section({
  t: {
    uniqueid: "3",
    version: "2",
    state: "ESTABLISHED",
    initiator: "yes",
    "nat-local": "yes",
    "encr-alg": "AES_CBC",
    "encr-keysize": "256",
    "integ-alg": "HMAC_SHA2_256_128",
    "dh-group": "CURVE_25519",
    established: "100",
    "rekey-time": "-5",
    "child-sas": {
      "c-9": {
        name: "c",
        uniqueid: "9",
        state: "INSTALLED",
        encap: "yes",
        "encr-alg": "AES_GCM_16",
        "encr-keysize": "128",
        "bytes-in": "1000",
        "packets-in": "10",
        "use-in": "7",
        "local-ts": ["10.0.0.0/24", "10.0.1.0/24"],
        "remote-ts": ["10.1.0.0/24"],
      },
    },
  },
})]);

/** The lines of samples. */
function lines(text: string): string[] {
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

Deno.test("renderMetrics() has the names, labels and values that dashboards are written for", () => {
  const text = renderMetrics({
    state: { connected: true, life: 1, tunnels: [], at: 0 },
    sas: SAS,
    counters: createCounters(),
  });
  const ike = 'ike_name="t",ike_id="3"', child = `${ike},child_name="c",child_id="9"`;
  const ts = `${child},local_ts="10.0.0.0/24;10.0.1.0/24",remote_ts="10.1.0.0/24"`;
  assert.deepEqual(lines(text).filter((line) => line.startsWith("strongswan_")), [
    "strongswan_ike_count 1",
    `strongswan_ike_version{${ike}} 2`,
    `strongswan_ike_status{${ike}} 1`,
    `strongswan_ike_initiator{${ike}} 1`,
    `strongswan_ike_nat_local{${ike}} 1`,
    `strongswan_ike_nat_remote{${ike}} 0`,
    `strongswan_ike_nat_fake{${ike}} 0`,
    `strongswan_ike_nat_any{${ike}} 0`,
    `strongswan_ike_encryption_key_size{${ike},algorithm="AES_CBC",dh_group="CURVE_25519"} 256`,
    `strongswan_ike_integrity_key_size{${ike},algorithm="HMAC_SHA2_256_128",dh_group="CURVE_25519"} 0`,
    `strongswan_ike_established_seconds{${ike}} 100`,
    `strongswan_ike_rekey_seconds{${ike}} -5`,
    `strongswan_ike_reauth_seconds{${ike}} 0`,
    `strongswan_ike_children_size{${ike}} 1`,
    `strongswan_sa_status{${ts}} 0`,
    `strongswan_sa_encap{${child}} 1`,
    `strongswan_sa_encryption_key_size{${child},algorithm="AES_GCM_16",dh_group=""} 128`,
    `strongswan_sa_integrity_key_size{${child},algorithm="",dh_group=""} 0`,
    `strongswan_sa_inbound_bytes{${ts}} 1000`,
    `strongswan_sa_inbound_packets{${ts}} 10`,
    `strongswan_sa_last_inbound_seconds{${ts}} 7`,
    `strongswan_sa_outbound_bytes{${ts}} 0`,
    `strongswan_sa_outbound_packets{${ts}} 0`,
    `strongswan_sa_last_outbound_seconds{${ts}} 0`,
    `strongswan_sa_established_seconds{${child}} 0`,
    `strongswan_sa_rekey_seconds{${child}} 0`,
    `strongswan_sa_lifetime_seconds{${child}} 0`,
  ]);
});

Deno.test("renderMetrics() has a series for every configured tunnel, also for one without an SA", () => {
  const tunnel = (name: string, state: "DOWN" | "REKEYING" | "ROUTED") => ({
    name,
    state,
    ikeState: state,
    since: 0,
    children: [{ name: "c", state, bytesIn: 0, bytesOut: 0, duplicates: 1 }],
  });
  const counters = createCounters();
  counters.rekeys.set("b", 2);
  const text = renderMetrics({
    state: {
      connected: true,
      life: 1,
      at: 0,
      tunnels: [tunnel("a", "DOWN"), tunnel("b", "REKEYING"), tunnel("r", "ROUTED")],
    },
    sas: [],
    counters,
    xfrmStat: parseXfrmStat("XfrmInError             \t0\nXfrmInNoPols   3\nnonsense\n"),
  });
  for (
    const line of [
      "strongswan_ike_count 0",
      "ipsec_vici_up 1",
      'ipsec_tunnel_up{tunnel="a"} 0',
      'ipsec_tunnel_up{tunnel="b"} 1',
      'ipsec_tunnel_up{tunnel="r"} 1',
      'ipsec_tunnel_state{tunnel="a",state="DOWN"} 1',
      'ipsec_tunnel_state{tunnel="a",state="UNKNOWN"} 0',
      'ipsec_child_up{tunnel="b",child="c"} 1',
      'ipsec_sa_duplicates{tunnel="a"} 1',
      'ipsec_rekeys_total{tunnel="a"} 0',
      'ipsec_rekeys_total{tunnel="b"} 2',
      'ipsec_xfrm_errors_total{reason="XfrmInNoPols"} 3',
    ]
  ) assert(lines(text).includes(line), line);
});

Deno.test("Exposition escapes labels and writes numbers as Prometheus reads them", () => {
  const out = new Exposition();
  out.add("m", "gauge", "a\nb", [[{ l: 'q"\\\n' }, NaN], [{}, Infinity], [{}, 1e21]]);
  assert.equal(out.toString(), '# HELP m a\\nb\n# TYPE m gauge\nm{l="q\\"\\\\\\n"} NaN\nm +Inf\nm 1e+21\n');
});

const LOG: readonly (readonly [string, RegExp])[] = [
  ["received AUTHENTICATION_FAILED notify error", /pre-shared key or our identity/],
  ["tried 1 shared key for 'a' - 'b', but MAC mismatched", /pre-shared keys do not match/],
  ["received NO_PROPOSAL_CHOSEN notify error", /IKE proposals/],
  ["received NO_PROPOSAL_CHOSEN notify, no CHILD_SA built", /ESP proposals/],
  ["received TS_UNACCEPTABLE notify, no CHILD_SA built", /traffic selectors/],
  ["giving up after 5 retransmits", /does not answer/],
  ["error writing to socket: Network is unreachable", /no route/],
];
for (const [msg, expected] of LOG) {
  Deno.test(`causeOfLog() says ${expected.source} when charon logs ${msg}`, () => {
    const cause = causeOfLog(section({ "ikesa-name": "t", msg }));
    assert.equal(cause?.tunnel, "t");
    assert.match(cause?.text ?? "", expected);
  });
}

Deno.test("causeOfLog() and causeOfAlert() give nothing when it is no trouble or names no tunnel", () => {
  assert.equal(causeOfLog(section({ "ikesa-name": "t", msg: "IKE_SA t[1] established" })), undefined);
  assert.equal(causeOfLog(section({ msg: "received AUTHENTICATION_FAILED notify error" })), undefined);
  assert.equal(causeOfAlert(section({ type: "retransmit-send", "ike-sa": { t: {} } })), undefined);
  assert.equal(causeOfAlert(section({ type: "ts-mismatch" })), undefined);
  assert.deepEqual(causeOfAlert(section({ type: "peer-addr-failed", "ike-sa": { t: {} } })), {
    tunnel: "t",
    text: "The peer's name can't be resolved",
  });
  assert.equal(countOfLog(section({ msg: "giving up after 5 retransmits" })), "timeout");
  assert.equal(
    countOfLog(section({ msg: "CHILD_SA rekeying failed, trying again in 16 seconds" })),
    "rekey-failure",
  );
});
