# The bridge that everything of the lab is joined by; sourced. Kubernetes and OpenStack both need it, the last one down
# takes it away.

bridge_up() {
  if ! ip link show "$LAB_BRIDGE" > /dev/null 2>&1; then
    ip link add "$LAB_BRIDGE" type bridge 2> /dev/null || ip link show "$LAB_BRIDGE" > /dev/null
  fi
  ip addr replace "$LAB_IP/24" dev "$LAB_BRIDGE"
  ip link set "$LAB_BRIDGE" up
}

bridge_down_if_idle() {
  any_alive "$K8S_RUN"/pids/*.pid "$OS_RUN"/*.pid || ip link del "$LAB_BRIDGE" 2> /dev/null || true
}
