// Gateways that name what is not there, not theirs or not usable: the API server takes them, a condition tells.
import type { ConditionType, Reason } from "../../src/api/ipsec_gateway.ts";
import { PARTNER_ADDRESS } from "./partner.ts";

/** An id that nothing has. */
export const UNKNOWN_ID = "00000000-0000-4000-8000-00000000dead";

/** A gateway that names something that cannot be used, and where it stops. */
export interface Unusable {
  readonly spec: Readonly<Record<string, unknown>>;
  readonly condition?: ConditionType;
  readonly reason: Reason;
  readonly says: readonly RegExp[];
}

const tunnel = { name: "berlin", peer: { address: PARTNER_ADDRESS }, remoteSubnets: ["192.168.77.0/24"] };
const withCloud = (name: string, more: Readonly<Record<string, unknown>> = {}) => ({
  openstack: { cloudSecretRef: { name }, ...more },
});

/** Gateways by name; `ns` is the namespace. */
export function unusable(ns: string): Readonly<Record<string, Unusable>> {
  const keys = new RegExp(`Secret ${ns}/keys`);
  const cloud = (name: string) => new RegExp(`Secret ${ns}/${name} `);
  return {
    "no-secret": {
      spec: { psk: { secretName: "nowhere" } },
      reason: "SecretNotFound",
      says: [new RegExp(`Secret ${ns}/nowhere .*does not exist: create it with a key psk`)],
    },
    "no-key": {
      spec: { psk: { secretName: "keys", key: "other" } },
      reason: "SecretKeyMissing",
      says: [keys, /no key other: add it/],
    },
    "no-own-key": {
      spec: { tunnels: [{ ...tunnel, psk: { key: "own" } }] },
      reason: "SecretKeyMissing",
      says: [keys, /no key own: add it/],
    },
    "empty-key": {
      spec: { psk: { secretName: "bad", key: "empty" } },
      reason: "SecretKeyMissing",
      says: [new RegExp(`Key empty of Secret ${ns}/bad is empty: put`)],
    },
    "newline-key": {
      spec: { psk: { secretName: "bad", key: "newline" } },
      reason: "SecretKeyMissing",
      says: [new RegExp(`Key newline of Secret ${ns}/bad is empty: put`)],
    },
    "same-peer": {
      spec: { tunnels: [tunnel, { ...tunnel, name: "oslo" }] },
      reason: "DuplicatePeer",
      says: [/Tunnels berlin and oslo/, /make them children of one tunnel or give them different peer\.id/],
    },
    "host-bits": {
      spec: { tunnels: [{ ...tunnel, remoteSubnets: ["192.168.77.1/24"] }] },
      reason: "InvalidSpec",
      says: [/Tunnel berlin/, /192\.168\.77\.1\/24: .*the subnet is 192\.168\.77\.0\/24/],
    },
    "far-host": {
      spec: { reverseExposures: [{ name: "api", port: 80, remoteAddress: "10.9.9.9", remotePort: 80 }] },
      reason: "InvalidSpec",
      says: [/Reverse exposure api: 10\.9\.9\.9 is in no tunnel's remote subnets \(192\.168\.77\.0\/24\)/],
    },
    "far-address": {
      spec: {
        serviceCIDR: "100.64.216.0/24",
        exposures: [{ name: "web", ip: "100.64.217.1", port: 80, target: { address: "10.0.0.1", port: 80 } }],
      },
      reason: "InvalidSpec",
      says: [/Exposure web: 100\.64\.217\.1 is not in spec\.serviceCIDR 100\.64\.216\.0\/24/],
    },
    "no-name": {
      spec: { tunnels: [{ ...tunnel, peer: { address: "nowhere.example.test" } }] },
      reason: "PeerUnresolvable",
      says: [
        /Tunnel berlin: peer\.address nowhere\.example\.test does not resolve/,
        /correct the name or its DNS record/,
      ],
    },
    "not-our-network": {
      spec: { openstack: { networkID: UNKNOWN_ID } },
      reason: "NotAllowed",
      says: [new RegExp(`spec\\.openstack\\.networkID ${UNKNOWN_ID}`), /--allowed-network-ids/],
    },
    "not-our-address": {
      spec: { endpoint: { floatingIP: "192.0.2.9" } },
      reason: "NotAllowed",
      says: [/spec\.endpoint\.floatingIP 192\.0\.2\.9/, /--allowed-floating-ips/],
    },
    "not-our-image": {
      spec: { images: { strongswan: "evil" } },
      reason: "NotAllowed",
      says: [/spec\.images/, /--allow-image-override/],
    },
    "cloud-nowhere": {
      spec: withCloud("nowhere"),
      reason: "SecretNotFound",
      says: [cloud("nowhere"), /create it with a key clouds\.yaml/],
    },
    "cloud-keyless": {
      spec: withCloud("keys"),
      reason: "CloudCredentialsInvalid",
      says: [cloud("keys"), /it has no key clouds\.yaml/],
    },
    "cloud-garbled": {
      spec: withCloud("garbled"),
      reason: "CloudCredentialsInvalid",
      says: [cloud("garbled"), /it is not YAML \(line \d\)/],
    },
    "cloud-bare": {
      spec: withCloud("bare"),
      reason: "CloudCredentialsInvalid",
      says: [cloud("bare"), /"lab"/, /auth/],
    },
    "cloud-two": {
      spec: withCloud("two"),
      reason: "CloudCredentialsInvalid",
      says: [cloud("two"), /"east", "west"/],
    },
    "cloud-other": {
      spec: withCloud("two", { cloud: "north" }),
      reason: "CloudCredentialsInvalid",
      says: [cloud("two"), /"north"/, /"east", "west"/],
    },
    "cloud-wrong": {
      spec: withCloud("wrong"),
      reason: "CloudCredentialsInvalid",
      says: [cloud("wrong"), /401/, /check the credentials/],
    },
    "cloud-dead": {
      spec: withCloud("dead"),
      reason: "CloudUnreachable",
      says: [cloud("dead"), /got no answer/, /tried again/],
    },
    "no-network": {
      spec: withCloud("good", { networkID: UNKNOWN_ID }),
      condition: "PortReady",
      reason: "EnsurePortFailed",
      says: [new RegExp(`network ${UNKNOWN_ID}`), /name one that the project of the credentials can see/],
    },
    "no-address": {
      spec: { ...withCloud("good"), endpoint: { floatingIP: "192.0.2.9" } },
      condition: "FIPAttached",
      reason: "EnsureFIPFailed",
      says: [/192\.0\.2\.9/],
    },
  };
}
