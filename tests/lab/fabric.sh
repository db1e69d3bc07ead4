#!/usr/bin/env bash
# The fabric: Neutron's and Nova's state as packets, in the network namespace ipo-router. usage: fabric.sh up|down|status
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
. ./env.sh
. ./process.sh
RUN=$CACHE/run/fabric
NS=ipo-router

case ${1:-} in
up)
  any_alive "$RUN/pid" && { echo "fabric: already up"; exit 0; }
  mkdir -p "$RUN"
  : > "$RUN/log"
  # It is the network: on a busy machine it comes before what uses it.
  daemon "$RUN/pid" "$RUN/log" nice -n -5 deno run -A --quiet --no-lock fabric/main.ts --pids "$K8S_RUN/pids" --changed "$OS_CHANGED"
  if ! until_true 30 grep -q 'first step took' "$RUN/log" || ! grep -q ' rules for ' "$RUN/log"; then
    echo "fabric: not up within 30 s" >&2
    tail -5 "$RUN/log" >&2
    exit 1
  fi
  echo "fabric: up ($NS)"
  ;;
down)
  daemon_stop TERM 5 "$RUN/pid"
  # The taps' far ends in the nodes go with their near ends.
  ip netns del $NS 2> /dev/null || true
  rm -rf "$RUN"
  echo "fabric: down"
  ;;
status)
  any_alive "$RUN/pid" || { echo "fabric: down"; exit 1; }
  echo "fabric: up, pid $(pid_of "$RUN/pid"), log $RUN/log"
  ip -n $NS -br addr
  ;;
*)
  sed -n 2p "$0" >&2
  exit 2
  ;;
esac
