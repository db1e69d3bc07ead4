// Specs that the API server refuses, each with the field that the refusal has to name.
import { PARTNER_ADDRESS } from "./partner.ts";

type Fields = Readonly<Record<string, unknown>>;

export interface BadSpec {
  readonly what: string;
  /** Laid over the spec of a plain gateway. */
  readonly spec: Fields;
  readonly says: RegExp;
  /** Laid over the metadata. */
  readonly metadata?: Fields;
}

const tunnel: Fields = {
  name: "berlin",
  peer: { address: PARTNER_ADDRESS },
  remoteSubnets: ["192.168.77.0/24"],
};
const exposure: Fields = { name: "web", port: 80, target: { service: { name: "web", port: 80 } } };
const reverse: Fields = { name: "api", port: 80, remoteAddress: "192.168.77.10", remotePort: 8080 };

const tunnels = (fields: Fields) => ({ tunnels: [{ ...tunnel, ...fields }] });
const peer = (fields: Fields) => tunnels({ peer: { address: PARTNER_ADDRESS, ...fields } });
const exposures = (fields: Fields) => ({ exposures: [{ ...exposure, ...fields }] });
const reverses = (fields: Fields) => ({ reverseExposures: [{ ...reverse, ...fields }] });
const without = (object: Fields, key: string): Fields =>
  Object.fromEntries(Object.entries(object).filter(([name]) => name !== key));

export const BAD_SPECS: readonly BadSpec[] = [
  {
    what: "a name that is too long",
    metadata: { name: "g".repeat(41) },
    spec: {},
    says: /metadata\.name: Too long/,
  },
  { what: "an unknown mode", spec: { mode: "bridge" }, says: /spec\.mode: Unsupported value: "bridge"/ },
  { what: "no Secret", spec: { psk: {} }, says: /spec\.psk\.secretName: Required/ },
  { what: "an empty Secret name", spec: { psk: { secretName: "" } }, says: /spec\.psk\.secretName: Invalid/ },
  {
    what: "a Secret elsewhere",
    spec: { psk: { secretName: "../keys" } },
    says: /spec\.psk\.secretName: Invalid/,
  },
  {
    what: "a key with a path",
    spec: { psk: { secretName: "keys", key: "../psk" } },
    says: /spec\.psk\.key: Invalid/,
  },
  { what: "no tunnels", spec: { tunnels: [] }, says: /spec\.tunnels: Invalid.*at least 1/ },
  {
    what: "33 tunnels",
    spec: {
      tunnels: Array.from(
        { length: 33 },
        (_, n) => ({ ...tunnel, name: `t${n}`, peer: { address: `203.0.113.${n + 1}` } }),
      ),
    },
    says: /spec\.tunnels: Too many: 33: must have at most 32/,
  },
  {
    what: "two tunnels of one name",
    spec: { tunnels: [tunnel, tunnel] },
    says: /spec\.tunnels\[1\]: Duplicate value/,
  },
  {
    what: "a tunnel name with a brace",
    spec: tunnels({ name: "a{b" }),
    says: /spec\.tunnels\[0\]\.name: Invalid/,
  },
  {
    what: "a tunnel name with a newline",
    spec: tunnels({ name: "a\nb" }),
    says: /spec\.tunnels\[0\]\.name: Invalid/,
  },
  {
    what: "no peer address",
    spec: tunnels({ peer: {} }),
    says: /spec\.tunnels\[0\]\.peer\.address: Required/,
  },
  {
    what: "a peer address with a mask",
    spec: peer({ address: "203.0.113.0/24" }),
    says: /tunnels\[0\]\.peer\.address: Invalid/,
  },
  {
    what: "a peer address with a newline",
    spec: peer({ address: "a\nb" }),
    says: /tunnels\[0\]\.peer\.address: Invalid/,
  },
  {
    what: "a peer id with a newline",
    spec: peer({ id: "a\nb" }),
    says: /spec\.tunnels\[0\]\.peer\.id: Invalid/,
  },
  {
    what: "a peer id with a quote",
    spec: peer({ id: 'a"b' }),
    says: /spec\.tunnels\[0\]\.peer\.id: Invalid/,
  },
  {
    what: "a peer id with a backslash",
    spec: peer({ id: "a\\b" }),
    says: /spec\.tunnels\[0\]\.peer\.id: Invalid/,
  },
  {
    what: "a peer id with a blank before it",
    spec: peer({ id: " a" }),
    says: /spec\.tunnels\[0\]\.peer\.id: Invalid/,
  },
  { what: "peer port 0", spec: peer({ port: 0 }), says: /spec\.tunnels\[0\]\.peer\.port: Invalid value: 0/ },
  {
    what: "a source that is no CIDR",
    spec: peer({ sourceCIDRs: ["203.0.113.250"] }),
    says: /peer\.sourceCIDRs\[0\]: Invalid/,
  },
  {
    what: "an unknown field",
    spec: peer({ adress: "x" }),
    says: /unknown field "spec\.tunnels\[0\]\.peer\.adress"/,
  },
  {
    what: "subnets and children",
    spec: tunnels({ children: [{ name: "c", remoteSubnets: ["192.168.78.0/24"] }] }),
    says: /spec\.tunnels\[0\]: Invalid.*give either remoteSubnets/,
  },
  {
    what: "neither subnets nor children",
    spec: { tunnels: [without(tunnel, "remoteSubnets")] },
    says: /spec\.tunnels\[0\]: Invalid.*give either remoteSubnets/,
  },
  {
    what: "local subnets beside children",
    spec: {
      tunnels: [{
        ...without(tunnel, "remoteSubnets"),
        localSubnets: ["10.1.0.0/24"],
        children: [{ name: "c", remoteSubnets: ["192.168.78.0/24"] }],
      }],
    },
    says: /spec\.tunnels\[0\]: Invalid.*put it into each child/,
  },
  {
    what: "a subnet without a length",
    spec: tunnels({ remoteSubnets: ["192.168.77.0"] }),
    says: /remoteSubnets\[0\]: Invalid/,
  },
  {
    what: "a subnet of length 33",
    spec: tunnels({ remoteSubnets: ["192.168.77.0/33"] }),
    says: /remoteSubnets\[0\]: Invalid/,
  },
  {
    what: "an IPv6 subnet",
    spec: tunnels({ remoteSubnets: ["2001:db8::/64"] }),
    says: /remoteSubnets\[0\]: Invalid/,
  },
  {
    what: "an octet of 256",
    spec: tunnels({ localSubnets: ["256.0.0.0/8"] }),
    says: /localSubnets\[0\]: Invalid/,
  },
  {
    what: "IKE version 3",
    spec: tunnels({ ike: { version: 3 } }),
    says: /tunnels\[0\]\.ike\.version: Unsupported/,
  },
  {
    what: "a proposal that ends the value",
    spec: tunnels({ ike: { proposals: ["aes256-sha256\nsecrets {"] } }),
    says: /ike\.proposals\[0\]: Invalid/,
  },
  {
    what: "two proposals in one",
    spec: tunnels({ esp: { proposals: ["aes256, aes128"] } }),
    says: /esp\.proposals\[0\]: Invalid/,
  },
  {
    what: "a time in words",
    spec: tunnels({ esp: { rekeyTime: "1 hour" } }),
    says: /esp\.rekeyTime: Invalid/,
  },
  {
    what: "an unknown start action",
    spec: tunnels({ startAction: "always" }),
    says: /tunnels\[0\]\.startAction: Unsupported/,
  },
  {
    what: "exposure port 0",
    spec: exposures({ port: 0 }),
    says: /spec\.exposures\[0\]\.port: Invalid value: 0/,
  },
  {
    what: "exposure port 65536",
    spec: exposures({ port: 65536 }),
    says: /spec\.exposures\[0\]\.port: Invalid/,
  },
  {
    what: "protocol SCTP",
    spec: exposures({ protocol: "SCTP" }),
    says: /spec\.exposures\[0\]\.protocol: Unsupported/,
  },
  {
    what: "two exposures of one name",
    spec: { exposures: [exposure, { ...exposure, port: 81 }] },
    says: /spec\.exposures\[1\]: Duplicate value/,
  },
  {
    what: "an exposure address in words",
    spec: exposures({ ip: "first" }),
    says: /spec\.exposures\[0\]\.ip: Invalid/,
  },
  {
    what: "a target of both kinds",
    spec: exposures({ target: { service: { name: "web", port: 80 }, address: "10.0.0.1", port: 80 } }),
    says: /exposures\[0\]\.target: Invalid.*give either target\.service or/,
  },
  {
    what: "no target",
    spec: exposures({ target: {} }),
    says: /exposures\[0\]\.target: Invalid.*give either target\.service or/,
  },
  {
    what: "a target address without its port",
    spec: exposures({ target: { address: "10.0.0.1" } }),
    says: /exposures\[0\]\.target: Invalid.*belong together/,
  },
  {
    what: "a Service elsewhere",
    spec: exposures({ target: { service: { name: "../web", port: 80 } } }),
    says: /target\.service\.name: Invalid/,
  },
  {
    what: "two reverse exposures of one name",
    spec: { reverseExposures: [reverse, { ...reverse, port: 81 }] },
    says: /spec\.reverseExposures\[1\]: Duplicate value/,
  },
  {
    what: "a remote address in words",
    spec: reverses({ remoteAddress: "host" }),
    says: /reverseExposures\[0\]\.remoteAddress: Invalid/,
  },
  {
    what: "remote port 0",
    spec: reverses({ remotePort: 0 }),
    says: /reverseExposures\[0\]\.remotePort: Invalid/,
  },
  {
    what: "routed without local subnets",
    spec: { mode: "routed" },
    says: /spec: Invalid.*mode routed needs localSubnets/,
  },
  {
    what: "routed with an exposure",
    spec: { mode: "routed", ...tunnels({ localSubnets: ["10.1.0.0/24"] }), exposures: [exposure] },
    says: /spec: Invalid.*exposures are DNAT/,
  },
  {
    what: "a service CIDR of another size",
    spec: { serviceCIDR: "100.64.8.0/23" },
    says: /spec\.serviceCIDR: Invalid/,
  },
  {
    what: "a service CIDR with host bits",
    spec: { serviceCIDR: "100.64.8.1/24" },
    says: /spec\.serviceCIDR: Invalid/,
  },
  {
    what: "a floating IP in words",
    spec: { endpoint: { floatingIP: "mine" } },
    says: /spec\.endpoint\.floatingIP: Invalid/,
  },
  {
    what: "a local id with a newline",
    spec: { endpoint: { localID: "a\n}" } },
    says: /spec\.endpoint\.localID: Invalid/,
  },
  {
    what: "a network by name",
    spec: { openstack: { networkID: "tenant-net" } },
    says: /spec\.openstack\.networkID: Invalid/,
  },
  {
    what: "a cloud Secret elsewhere",
    spec: { openstack: { cloudSecretRef: { name: "a/b" } } },
    says: /cloudSecretRef\.name: Invalid/,
  },
  { what: "an MTU of 100", spec: { mtu: 100 }, says: /spec\.mtu: Invalid/ },
  { what: "an MSS of 100", spec: { mss: 100 }, says: /spec\.mss: Invalid/ },
  {
    what: "an unknown taint effect",
    spec: { tolerations: [{ effect: "Sometimes" }] },
    says: /spec\.tolerations\[0\]\.effect: Unsupported/,
  },
  {
    what: "a quantity in words",
    spec: { resources: { requests: { cpu: "a lot" } } },
    says: /spec\.resources\.requests\.cpu: Invalid/,
  },
  { what: "an empty image", spec: { images: { strongswan: "" } }, says: /spec\.images\.strongswan: Invalid/ },
];
