#!/bin/bash
# scenario.sh FILES RESULTS STATUS_AGENT: one gateway's charon (under its supervisor), status-agent and nat-apply in a
# network namespace, a policy-based peer with a host behind it in others, and a pod. Prints "PASS name" or "FAIL name"
# for each check; logs go to RESULTS. FILES is what files.ts writes. Runs in the emulated kernel (driver xfrm) or on the
# machine (driver libipsec); as root; leaves nothing behind.
#
#   host 192.168.77.10 -- peer 203.0.113.250 = 10.0.0.1 --[wire]-- net1 10.0.0.7 gw 10.244.0.5 eth0 -- pod 10.244.0.9
set -u
files=$(readlink -f "$1") results=$(readlink -f "$2") agent=$(readlink -f "$3")
here=$(dirname "$(readlink -f "$0")")
images=$(readlink -f "$here/../../../charts/images/strongswan")
. "$files/variables"
work=$(mktemp -d -t ipsec-scenario.XXXXXX)
p=ipo-sc$$   # prefix of the namespaces
started=()
cleanup() {
  local pid n
  for pid in "${started[@]}"; do kill -CONT "$pid" 2> /dev/null; kill "$pid" 2> /dev/null; done
  wait 2> /dev/null
  for n in gw peer host pod; do
    for pid in $(ip netns pids $p-$n 2> /dev/null); do kill -9 "$pid" 2> /dev/null; done
    ip netns delete $p-$n 2> /dev/null
  done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 143' TERM INT
at() { local n=$1; shift; ip netns exec "$p-$n" "$@"; }
up() { local u; read -r u _ < /proc/uptime; printf '%s' "$u"; }
began=$(up)
say() { printf '# [%5.1f s] %s\n' "$(echo "$(up) - $began" | bc)" "$*"; }
check() { local name=$1; shift; if "$@" > "$work/out" 2>&1; then echo "PASS $name"; else echo "FAIL $name"; sed 's/^/#   /' "$work/out" | head -20; fi; }
within() { local limit=$1 i; shift; for ((i = 0; i < limit * 10; i++)); do "$@" > /dev/null 2>&1 && return 0; sleep 0.1; done; "$@"; }   # SECONDS COMMAND…
sw() { STRONGSWAN_CONF=$work/run/strongswan.conf swanctl "$@" 2> /dev/null; }
peer_sw() { STRONGSWAN_CONF=$work/peer.conf swanctl "$@" --uri "unix://$work/peer.vici" 2> /dev/null; }
start() { local log=$1; shift; setsid "$@" > "$results/$log" 2>&1 < /dev/null & started+=($!); last=$!; }
seen() { tcpdump -nnr "$1" "$2" 2> /dev/null | grep -c .; }
beacons() { at gw ping -c 1 -W 1 127.0.0.1 > /dev/null 2>&1; [ "$(seen "$results/$watched" 'icmp[icmptype] = icmp-echo and dst host 127.0.0.1')" -gt "$1" ]; }
# A capture that sees nothing proves nothing: it begins and ends with a packet that is seen.
watch() {
  watched=$1
  rm -f "$results/$1"
  at gw tcpdump -nni any -w "$results/$1" --immediate-mode -U > /dev/null 2>&1 & dump=$!; started+=($dump)
  within 15 beacons 0
}
unwatch() { within 15 beacons "$(seen "$results/$watched" 'icmp[icmptype] = icmp-echo and dst host 127.0.0.1')"; kill "$dump"; wait "$dump" 2> /dev/null; }
# Nothing leaves for the partner's networks by a real device; lo shows what the gateway tells itself.
# Read in the namespace: a capture of `any` holds the devices' numbers, not their names.
leaks() { at gw tcpdump -nnr "$results/$1" 'dst net 192.168.77.0/24 or src net 100.64.0.0/10' 2> /dev/null | grep -E '(net1|eth0) +Out'; }
device=ipsec0
[ "$DRIVER" = libipsec ] || device=ipsec$IF_ID

# ---- wires ----
for n in gw peer host pod; do ip netns add $p-$n; ip -n $p-$n link set lo up; done
ip link add net1 netns $p-gw address "$MAC" mtu 1450 type veth peer name wire netns $p-peer mtu 1450
ip link add eth0 netns $p-gw type veth peer name eth0 netns $p-pod
ip link add lan netns $p-peer type veth peer name eth0 netns $p-host
ip -n $p-gw -batch - <<B
address add $FIXED/24 dev net1
address add $GATEWAY_POD/24 dev eth0
link set net1 up
link set eth0 up
route add default via $POD
B
ip -n $p-peer -batch - <<B
address add $ROUTER/24 dev wire
address add $PEER/32 dev wire
address add 192.168.77.1/24 dev lan
link set wire up
link set lan up
B
ip -n $p-pod -batch - <<B
address add $POD/24 dev eth0
link set eth0 up
B
ip -n $p-host -batch - <<B
address add $HOST/24 dev eth0
link set eth0 up
route add default via 192.168.77.1
B
# What the NAD's tuning plugin does in a cluster; and the pod would answer for anything, so that a leak finds a way.
for n in gw peer pod; do at $n sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0; done
[ "$DRIVER" = xfrm ] || ip -n $p-peer route add unreachable "$SERVICE_CIDR" metric 9999

# ---- the peer ----
libipsec='' load=''
if [ "$DRIVER" = libipsec ]; then
  load=kernel-libipsec
  libipsec='kernel-libipsec { load = yes
      allow_peer_ts = yes }
    kernel-netlink { fwmark = !0x42 }
    socket-default { fwmark = 0x42 }'
fi
cat > "$work/peer.conf" <<C
charon-systemd {
  load = random nonce openssl aes sha1 sha2 hmac kdf gcm gmp curve25519 $load kernel-netlink socket-default vici updown
  plugins {
    vici { socket = unix://$work/peer.vici }
    $libipsec
  }
  filelog { log { path = $results/peer.log
    default = 1
    flush_line = yes } }
}
swanctl { load = random nonce openssl }
C
cp -r "$files/rendered" "$files/psk" "$files/nat" "$work/"
mkdir -p "$work/run"
start peer.out ip netns exec $p-peer unshare -m sh -c "mount -t tmpfs t /var/run; export STRONGSWAN_CONF=$work/peer.conf; exec /usr/sbin/charon-systemd"
peer=$last
within 60 test -S "$work/peer.vici" || { echo "FAIL the peer starts"; exit 1; }
peer_sw --load-all --noprompt --file "$files/peer/swanctl.conf" > "$results/peer.load"

# ---- the gateway's three containers ----
start supervisor.log ip netns exec $p-gw unshare -m sh -c "mount -t tmpfs t /var/run; export IPSEC_RUN=$work/run STRONGSWAN_CONF=$work/run/strongswan.conf; exec $images/charon-supervisor"
supervisor=$last
start nat.log ip netns exec $p-gw env IPSEC_RUN="$work/run" NAT_RULES="$work/nat/nat.rules" NAT_POLL_SECONDS=1 "$images/nat-apply"
# Before the agent: nat.rules are there, forwarding is on, and nothing may be forwarded.
within 10 grep -q waiting "$results/nat.log"
within 10 at gw nft list table inet ipsec_start
watch start.pcap
check "before the fence: pod -> reverse exposure is silent" sh -c "! echo SECRET | ip netns exec $p-pod timeout 3 socat -t1 - TCP:$GATEWAY_POD:20001,connect-timeout=2"
ip -n $p-pod route add "$REMOTE" via "$GATEWAY_POD"
check "before the fence: nothing is forwarded" sh -c "! ip netns exec $p-pod ping -c 1 -W 1 $HOST"
ip -n $p-pod route delete "$REMOTE"
unwatch
check "before the fence: nothing leaves in clear" test -z "$(leaks start.pcap)"
check "charon waits while there is no fence" test ! -e "$work/run/charon.vici"
start agent.log ip netns exec $p-gw "$agent" gateway --config-directory="$work/rendered" --psk-directory="$work/psk" \
  --run-directory="$work/run" --metrics-bind-address=127.0.0.1:9903 --interval=1s --log-level=debug
agent_pid=$last
say "agent started"
installed() { sw --list-sas | grep -q INSTALLED; }
check "the agent finds the driver $DRIVER" within 90 grep -q " $DRIVER\$" "$work/run/fenced"
[ -e "$work/run/fenced" ] || { tail -5 "$results/agent.log"; exit 1; }
check "the tunnel is established" within 60 installed
say "established"
sw --list-sas > "$results/list-sas"
ip -n $p-gw -d link > "$results/links"; ip -n $p-gw route show table all > "$results/routes"; ip -n $p-gw rule > "$results/rules"
at gw nft list ruleset > "$results/ruleset"; at gw ip xfrm policy > "$results/policies" 2>&1

# ---- packets ----
at pod socat TCP-LISTEN:80,fork,reuseaddr SYSTEM:'echo pod saw $SOCAT_PEERADDR; cat' > /dev/null 2>&1 & started+=($!)
at host socat TCP-LISTEN:8080,fork,reuseaddr SYSTEM:'echo host saw $SOCAT_PEERADDR; cat' > /dev/null 2>&1 & started+=($!)
# NS TEXT ADDRESS -> what comes back, two lines
talk() { echo "$2" | at "$1" timeout 30 socat -t15 - "TCP:$3,connect-timeout=10"; }
hears() {   # more than once: a shell that the far end starts for the first time is slow on a busy emulated machine
  local got _
  for _ in 1 2 3; do
    got=$(talk "$1" "$2" "$3" | tr '\n' '|')
    echo "heard $got"
    [ "$got" != "$4" ] || return 0
  done
  return 1
}
at gw tcpdump -nni net1 -w "$results/wire.pcap" --immediate-mode -U > /dev/null 2>&1 & wire_dump=$!; started+=($wire_dump)
sleep 1
check "host -> service-CIDR address, ICMP" at host ping -c 3 -i 0.3 -W 5 "$OWN"
check "gateway -> host, ICMP" at gw ping -c 3 -i 0.3 -W 5 -I "$OWN" "$HOST"
if [ "$DRIVER" = xfrm ]; then
  # Before any TCP: what the interface counts as one segment offload packet is several for the SA.
  sa() { sw --list-sas --raw | grep -oE "$1=[0-9]+" | head -1 | cut -d= -f2; }
  iface() { ip -n $p-gw -s -json link show "$device" | tr -d '\n ' | grep -oE "\"$1\":\{\"bytes\":[0-9]+,\"packets\":[0-9]+" | grep -oE '[0-9]+$'; }
  agree() {
    local out in_
    for _ in 1 2 3 4 5; do
      out=$(sa packets-out) in_=$(sa packets-in)
      echo "SA out $out in $in_; $device tx $(iface tx) rx $(iface rx)"
      [ "${out:-0}" -ge 6 ] && [ "${in_:-0}" -ge 6 ] && [ "$out" = "$(iface tx)" ] && [ "$in_" = "$(iface rx)" ] && return 0
      sleep 0.5
    done
    return 1
  }
  check "counters of the XFRM interface and of the SAs agree" agree
fi
check "the metrics know the tunnel" sh -c "ip netns exec $p-gw curl -fsS http://127.0.0.1:9903/metrics | tee $results/metrics | grep -q '^ipsec_tunnel_up{tunnel=\"partner\"} 1'"
check "the agent is ready" at gw curl -fsS http://127.0.0.1:9903/readyz
check "host -> exposure -> pod, TCP" hears host hello "$EXPOSURE:8080" "pod saw $GATEWAY_POD|hello|"
check "pod -> reverse exposure -> host, TCP" hears pod hello "$GATEWAY_POD:20001" "host saw $OWN|hello|"
mss() {   # NS: the MSS that its end of a new connection is offered; both ends would like 1460
  at "$1" timeout 20 tcpdump -nni eth0 -c 1 --immediate-mode "tcp[tcpflags] & tcp-syn != 0 and $2" > "$work/mss" 2> /dev/null & local dump=$!
  sleep 1; talk host x "$EXPOSURE:8080" > /dev/null 2>&1; wait "$dump"; cat "$work/mss"
  grep -q 'mss 1346' "$work/mss"
}
check "TCP's MSS is lowered towards the pod" mss pod 'dst port 80'
check "TCP's MSS is lowered towards the host" mss host 'src port 8080'
check "an address that is no exposure is silent" sh -c "! ip netns exec $p-host ping -c 1 -W 1 100.64.3.99"
check "a port of the gateway that is no exposure is silent" sh -c "! ip netns exec $p-host socat -u OPEN:/dev/null TCP:$OWN:9903,connect-timeout=1"
head -c 300000 /dev/urandom > "$work/blob"
sum() { sha256sum | cut -c1-64; }
there_and_back() { [ "$(at "$1" timeout 60 socat -t10 - "TCP:$2" < "$work/blob" | tail -n +2 | sum)" = "$(sum < "$work/blob")" ]; }
check "300 kB there and back, host to pod" there_and_back host "$EXPOSURE:8080"
check "300 kB there and back, pod to host" there_and_back pod "$GATEWAY_POD:20001"
sleep 0.5
mtu=$(ip -n $p-gw -json link show "$device" | grep -o '"mtu":[0-9]*' | cut -d: -f2)
check "the tunnel's MTU is 1386" test "$mtu" = 1386
check "a packet of the whole MTU passes" at host ping -c 2 -i 0.3 -W 5 -M do -s $((mtu - 28)) "$OWN"

# ---- the interface ----
if [ "$DRIVER" = xfrm ]; then
  check "the SAs have the if_id, and the interface of that name" sh -c "ip -n $p-gw xfrm state | grep -q 'if_id $(printf 0x%x "$IF_ID")' && ip -n $p-gw -d link show $device | grep -q 'if_id $(printf 0x%x "$IF_ID")'"
  check "no error in xfrm_stat" at gw sh -c "! grep -vE '[[:space:]]0\$' /proc/net/xfrm_stat"
  spis() { ip -n $p-gw xfrm state | grep -oE 'spi 0x[0-9a-f]+' | sort | tr '\n' ' '; }
  before=$(spis)
  ip -n $p-gw link delete "$device"
  check "the interface deleted by hand is back" within 15 ip -n $p-gw link show "$device"
  check "and carries packets again" within 10 at host ping -c 1 -W 1 "$OWN"
  check "with the same SAs" test "$before" = "$(spis)"
fi
kill "$wire_dump"; wait "$wire_dump" 2> /dev/null
check "something was seen on the wire" test "$(seen "$results/wire.pcap" 'udp port 4500')" -gt 10
check "only IKE and ESP on the wire" test "$(seen "$results/wire.pcap" 'ip and not udp port 500 and not udp port 4500')" = 0

# ---- charon and agent killed ----
charon_pid() { for pid in $(ip netns pids $p-$1); do [ "$(cat /proc/"$pid"/comm 2> /dev/null)" = charon-systemd ] && echo "$pid"; done; }
old=$(charon_pid gw)
kill -9 $old
check "charon killed: another one is established" within 40 sh -c "! kill -0 $old 2> /dev/null && STRONGSWAN_CONF=$work/run/strongswan.conf swanctl --list-sas 2> /dev/null | grep -q INSTALLED"
check "charon killed: packets flow again" within 10 at host ping -c 1 -W 1 "$OWN"
say "after the kill"
life() { sw --list-sas --raw | grep -oE 'uniqueid=[0-9]+ |spi-in=[0-9a-f]+' | sort | tr '\n' ' '; }
before=$(life)
kill "$agent_pid"
start agent2.log ip netns exec $p-gw "$agent" gateway --config-directory="$work/rendered" --psk-directory="$work/psk" \
  --run-directory="$work/run" --metrics-bind-address=127.0.0.1:9903 --interval=1s --log-level=debug
agent_pid=$last
check "agent killed: the next one is ready" within 20 at gw curl -fsS http://127.0.0.1:9903/readyz
sleep 3
check "agent killed: the same SAs" test "$before" = "$(life)"

# ---- the key changes ----
printf 'another key\n' > "$work/psk/psk"
check "a changed key is pushed" within 10 sh -c "ip netns exec $p-gw curl -fsS http://127.0.0.1:9903/metrics | grep -qE '^ipsec_psk_pushes_total [2-9]'"
check "no SA is lost by it" test "$before" = "$(life)"
cp "$files/psk/psk" "$work/psk/psk"

# ---- the SA is gone: nothing in clear ----
kill -STOP $(charon_pid peer)
sw --terminate --ike partner --force > /dev/null
check "the SA is gone" sh -c "! STRONGSWAN_CONF=$work/run/strongswan.conf swanctl --list-sas 2> /dev/null | grep -q INSTALLED"
watch down.pcap
check "pod -> reverse exposure is silent" sh -c "! echo SECRET | ip netns exec $p-pod timeout 3 socat -t1 - TCP:$GATEWAY_POD:20001,connect-timeout=2"
at gw ping -c 2 -i 0.3 -W 1 "$HOST" > /dev/null 2>&1
at gw ping -c 2 -i 0.3 -W 1 -I "$OWN" "$HOST" > /dev/null 2>&1
unwatch
check "the watch saw the packets that were refused" test "$(seen "$results/down.pcap" "tcp dst port 20001")" -gt 0
check "nothing leaves in clear" test -z "$(leaks down.pcap)"
at gw nft list table inet ipsec_fence > "$results/fence"
kill -CONT $(charon_pid peer)
check "the peer back: established again" within 90 installed
check "the peer back: packets flow" within 15 at host ping -c 1 -W 1 "$OWN"

# ---- an exposure is removed ----
grep -v -- '--dport 8080' "$work/nat/nat.rules" > "$work/nat.new"
mv "$work/nat.new" "$work/nat/nat.rules"
check "a removed exposure's rule goes" within 10 grep -q 'gone: .*--dport 8080' "$results/nat.log"
check "a removed exposure is silent" sh -c "! ip netns exec $p-host socat -u OPEN:/dev/null TCP:$EXPOSURE:8080,connect-timeout=1"
# ---- the end, and that a leak would have been seen ----
kill "$agent_pid"
kill "$supervisor"
check "the supervisor ends at once on TERM" within 5 sh -c "! kill -0 $supervisor 2> /dev/null"
at gw nft delete table inet ipsec_fence
ip -n $p-gw rule delete priority 200 2> /dev/null
ip -n $p-gw route delete unreachable "$REMOTE" metric 9999 2> /dev/null
watch control.pcap
at gw ping -c 2 -i 0.3 -W 1 "$HOST" > /dev/null 2>&1
unwatch
check "without fence and routes a leak is seen" test -n "$(leaks control.pcap)"
say "done"
