#!/usr/bin/env bash
# The fault proxy between the controller and OpenStack: 172.30.0.1:5900, control API on 127.0.0.1:5901.
# usage: proxy.sh up|down|status
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
. ./env.sh
. ./process.sh
RUN=$CACHE/run/proxy

case ${1:-} in
up)
  any_alive "$RUN/pid" && { echo "proxy: already up"; exit 0; }
  mkdir -p "$RUN"
  : > "$RUN/log"
  daemon "$RUN/pid" "$RUN/log" deno run -A --quiet --no-lock proxy/main.ts \
    --listen "${PROXY_URL#http://}" --control "${PROXY_CONTROL_URL#http://}" --host "$LAB_IP"
  until_true 15 curl -sf --noproxy '*' "$PROXY_CONTROL_URL/rules" || {
    echo "proxy: does not answer after 15 s" >&2
    tail -5 "$RUN/log" >&2
    exit 1
  }
  echo "proxy: up ($PROXY_URL)"
  ;;
down)
  daemon_stop TERM 5 "$RUN/pid"
  rm -rf "$RUN"
  echo "proxy: down"
  ;;
status)
  any_alive "$RUN/pid" || { echo "proxy: down"; exit 1; }
  echo "proxy: up, pid $(pid_of "$RUN/pid"), log $RUN/log"
  curl -s --noproxy '*' "$PROXY_CONTROL_URL/rules"
  echo
  ;;
*)
  sed -n 2,3p "$0" >&2
  exit 2
  ;;
esac
