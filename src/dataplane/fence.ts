// The filter of a gateway: pure, state in, nft text out. One transaction replaces the table, so that there is no moment
// without it; nat.rules (iptables-restore) lives in other tables and never touches it.
import { toCidrs } from "./cidr.ts";
import { localRanges, type Network, remoteRanges } from "./network.ts";

/** Name of the table in the `inet` family. */
export const FENCE_TABLE = "ipsec_fence";
/** The table by which charon-supervisor keeps everything from being forwarded until the fence stands. */
const START_TABLE = "ipsec_start";

/** Also the names of the tunnels' devices: `ipsec0` (libipsec) or `ipsec<if_id>` (xfrm). */
const TUNNELS = `"ipsec*"`;

function set(name: string, cidrs: readonly string[]): string {
  const elements = cidrs.length ? `\n    elements = { ${cidrs.join(", ")} }` : "";
  return `  set ${name} {\n    type ipv4_addr\n    flags interval${elements}\n  }`;
}

/**
 * The text for `nft -f -`. What it holds:
 *
 * - Nothing for or from a remote subnet passes by any device but a tunnel's; in nat mode the same for the service CIDR
 *   as a source. So a packet whose tunnel, SA or route is gone is dropped, never sent in clear.
 * - Forwarding is closed but for translated connections (nat), or for what lies between local and remote subnets (routed).
 * - A partner reaches no port of this pod; it may ping the own address.
 * - IKE and ESP leave and enter by the uplink only.
 * - TCP's MSS is lowered to what fits the tunnel, never raised.
 */
export function renderFence(network: Network): string {
  const { driver, uplink, mode, ownAddress, mss } = network;
  const local = mode === "nat" ? [...localRanges(network), network.serviceRange] : localRanges(network);
  const up = `"${uplink.device}"`;
  const passes = mode === "nat"
    ? [
      `    iifname ${TUNNELS} oifname != ${TUNNELS} ct status dnat accept comment "exposure"`,
      `    iifname != ${TUNNELS} oifname ${TUNNELS} ct status dnat accept comment "reverse exposure"`,
    ]
    : [
      `    iifname ${TUNNELS} oifname != ${TUNNELS} ip saddr @remote ip daddr @local accept`,
      `    iifname != ${TUNNELS} oifname ${TUNNELS} ip saddr @local ip daddr @remote accept`,
    ];
  const service = mode === "nat"
    ? [
      `    iifname != ${TUNNELS} iifname != "lo" ip daddr @local counter drop comment "service CIDR from outside a tunnel"`,
    ]
    : [];
  // Behind an XFRM interface the inner packet comes by once more, towards the uplink, about to be encrypted.
  const clear = driver === "xfrm" ? `oifname != ${TUNNELS} rt ipsec missing` : `oifname != ${TUNNELS}`;
  const serviceOut = mode === "nat"
    ? [
      `    ${clear} oifname != "lo" ip saddr @local counter drop comment "would be in clear"`,
    ]
    : [];
  return `table inet ${START_TABLE}
delete table inet ${START_TABLE}
table inet ${FENCE_TABLE}
delete table inet ${FENCE_TABLE}
table inet ${FENCE_TABLE} {
${set("remote", toCidrs(remoteRanges(network)))}
${set("local", toCidrs(local))}
  chain in {
    type filter hook input priority -10; policy accept;
    iifname ${up} udp dport { 500, 4500 } accept
    iifname ${up} meta l4proto esp accept
    iifname != ${TUNNELS} iifname != "lo" ip saddr @remote counter drop comment "clear packet from a partner's network"
${[...service, ""].join("\n")}    iifname ${TUNNELS} ct state established,related accept
    iifname ${TUNNELS} ip daddr ${ownAddress} icmp type echo-request accept
    iifname ${TUNNELS} counter drop comment "nothing of this pod is served to a partner"
    udp dport { 500, 4500 } iifname != "lo" counter drop comment "IKE by the uplink only"
    iifname ${up} ct state established,related accept
    iifname ${up} counter drop
  }
  chain through {
    type filter hook forward priority -10; policy drop;
    ct state invalid counter drop
${passes.join("\n")}
    counter comment "neither exposure nor reverse exposure, or no tunnel"
  }
  chain out {
    type filter hook output priority -10; policy accept;
    oifname != ${up} udp sport { 500, 4500 } counter drop comment "IKE and ESP by the uplink only"
    oifname != ${up} meta l4proto esp counter drop
  }
  chain post {
    type filter hook postrouting priority 300; policy accept;
    oifname ${up} ip saddr ${uplink.address} udp sport { 500, 4500 } accept
    oifname ${up} ip saddr ${uplink.address} meta l4proto esp accept
    ${clear} ip daddr @remote counter drop comment "would be in clear"
${[...serviceOut, ""].join("\n")}  }
  chain mss {
    type filter hook forward priority -150; policy accept;
    oifname ${TUNNELS} tcp flags syn tcp option maxseg size > ${mss} tcp option maxseg size set ${mss}
    iifname ${TUNNELS} tcp flags syn tcp option maxseg size > ${mss} tcp option maxseg size set ${mss}
  }
}
`;
}
