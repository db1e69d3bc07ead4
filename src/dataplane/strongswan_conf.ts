// strongswan.conf for a charon that only this agent drives: one text per driver, byte-stable.
import type { Driver } from "./network.ts";

/** Where things are. */
export interface StrongswanPaths {
  /** The VICI socket, e.g. `/run/ipsec/charon.vici`. */
  readonly viciSocket: string;
  /** charon's log; `/dev/stdout` goes to the container's (a `stdout` section writes nothing in charon-systemd). */
  readonly log: string;
}

/** IKEv1 and IKEv2 with pre-shared keys, VICI, counters; no stroke, no certificates. */
const PLUGINS = "random nonce openssl aes sha1 sha2 hmac kdf gcm gmp curve25519";

/** Packets that may overtake each other: with several CPUs on the way 32, charon's default, drops good ones. */
const REPLAY_WINDOW = 128;

/** ESP that libipsec's own packets carry, so that its routes don't catch them. */
const MARK = "0x42";

const LIBIPSEC = `
    kernel-libipsec {
      load = yes
      allow_peer_ts = yes
    }
    kernel-netlink {
      fwmark = !${MARK}
    }
    socket-default {
      fwmark = ${MARK}
    }`;

/**
 * The whole file, with the `swanctl` section for a person's plain `swanctl --list-sas`.
 *
 * `cfg` stays at level 1: at 4 charon writes keys into its log. libipsec also looks for the own address inside a local
 * subnet among the interfaces it may use, so it needs `lo`; xfrm installs no route and no rule of its own.
 */
export function renderStrongswanConf(
  driver: Driver,
  { uplink, paths }: { readonly uplink: string; readonly paths: StrongswanPaths },
): string {
  const plugins = driver === "libipsec" ? `${PLUGINS} kernel-libipsec` : PLUGINS;
  return `charon-systemd {
  load = ${plugins} kernel-netlink socket-default vici counters
  interfaces_use = ${driver === "libipsec" ? `${uplink}, lo` : uplink}
  install_virtual_ip = no
  replay_window = ${REPLAY_WINDOW}${driver === "xfrm" ? "\n  install_routes = no\n  routing_table = 0" : ""}
  plugins {
    vici {
      socket = unix://${paths.viciSocket}
    }${driver === "libipsec" ? LIBIPSEC : ""}
  }
  filelog {
    log {
      path = ${paths.log}
      default = 1
      cfg = 1
      time_format = %Y-%m-%dT%H:%M:%S
      time_add_ms = yes
      flush_line = yes
    }
  }
}
swanctl {
  load = random nonce openssl
  socket = unix://${paths.viciSocket}
}
`;
}
