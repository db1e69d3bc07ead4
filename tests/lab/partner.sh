#!/usr/bin/env bash
# The peer: ipo-partner on the external network (203.0.113.250) runs Debian's strongSwan; ipo-phost behind it
# (192.168.77.10, 192.168.78.10) answers on TCP 8080 and UDP 9053 with who it saw, then what it was sent.
# Connections are loaded by tests/lab/partner.ts. usage: partner.sh up|down|status
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
. ./env.sh
. ./process.sh
RUN=$CACHE/run/partner
PARTNER=ipo-partner PHOST=ipo-phost ROUTER=ipo-router
IP=203.0.113.250

up() {
  # A fabric that was taken down took the partner's wire with it.
  if any_alive "$RUN/charon.pid" && ip -n $ROUTER link show ext-partner > /dev/null 2>&1; then
    echo "partner: already up"
    return
  fi
  ip -n $ROUTER link show br-ext > /dev/null 2>&1 || {
    echo "partner: cannot start: there is no br-ext in $ROUTER; start the fabric first" >&2
    exit 1
  }
  remove
  mkdir -p -m 700 "$RUN"
  local n
  for n in $PARTNER $PHOST; do
    ip netns add $n
    ip -n $n link set lo up
  done
  ip netns exec $PARTNER sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
  ip link add ext-partner netns $ROUTER type veth peer name wan netns $PARTNER
  ip -n $ROUTER link set ext-partner master br-ext up
  ip netns exec $PARTNER nft -f "$PWD/partner/fence.nft"
  ip link add lan netns $PARTNER type veth peer name eth0 netns $PHOST
  ip -n $PARTNER -batch - <<B
addr add $IP/24 dev wan
link set wan up
route add default via 203.0.113.1
addr add 192.168.77.1/24 dev lan
addr add 192.168.78.1/24 dev lan
link set lan up
route add unreachable 100.64.0.0/10 metric 9999
B
  ip -n $PHOST -batch - <<B
addr add 192.168.77.10/24 dev eth0
addr add 192.168.78.10/24 dev eth0
link set eth0 up
route add default via 192.168.77.1
B
  sed "s|@RUN@|$RUN|" partner/strongswan.conf > "$RUN/strongswan.conf"
  # charon writes below /var/run: a private one, so that it never meets another daemon's files.
  daemon "$RUN/charon.pid" "$RUN/charon.out" ip netns exec $PARTNER unshare -m sh -c \
    "mount -t tmpfs tmpfs /var/run && STRONGSWAN_CONF=$RUN/strongswan.conf exec /usr/sbin/charon-systemd"
  daemon "$RUN/tcp.pid" "$RUN/echo.log" ip netns exec $PHOST \
    socat TCP-LISTEN:8080,fork,reuseaddr 'SYSTEM:echo phost saw $SOCAT_PEERADDR; cat'
  daemon "$RUN/udp.pid" "$RUN/echo.log" ip netns exec $PHOST \
    socat -T 2 UDP-LISTEN:9053,fork,reuseaddr 'SYSTEM:echo phost-udp saw $SOCAT_PEERADDR; cat'
  if ! until_true 15 swanctl --stats --uri "unix://$RUN/vici"; then
    echo "partner: charon does not answer after 15 s" >&2
    tail -5 "$RUN/charon.out" "$RUN/charon.log" >&2 || true
    exit 1
  fi
  echo "partner: up ($IP, 192.168.77.10)"
}

remove() {
  daemon_stop TERM 5 "$RUN/charon.pid" "$RUN/tcp.pid" "$RUN/udp.pid"
  local n
  for n in $PHOST $PARTNER; do ip netns del $n 2> /dev/null || true; done
  rm -rf "$RUN" # it holds the keys
}

case ${1:-} in
up) up ;;
down)
  remove
  echo "partner: down"
  ;;
status)
  any_alive "$RUN/charon.pid" || { echo "partner: down"; exit 1; }
  echo "partner: up, pid $(pid_of "$RUN/charon.pid"), log $RUN/charon.log"
  swanctl --list-sas --uri "unix://$RUN/vici"
  ;;
*)
  sed -n 2,4p "$0" >&2
  exit 2
  ;;
esac
