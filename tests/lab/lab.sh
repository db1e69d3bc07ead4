# The parts of the lab together, in the order they need each other; sourced by ./run.

announce() {
  say "This installs distribution packages, keeps downloads and builds in $CACHE, and while a lab is up"
  say "has the bridge $LAB_BRIDGE ($LAB_NET.0/24, routes to 10.244.0.0/16 and 10.96.0.0/16), network namespaces, cgroups"
  say "and three kernel settings of kubelet's (vm.overcommit_memory, kernel.panic, kernel.panic_on_oops)."
  say "./run down ends all that and puts the settings back; packages and the cache stay."
}

wants() { # PART WANTED...
  local part=$1 wanted
  shift
  for wanted in "$@"; do [ "$wanted" = all ] || [ "$wanted" = "$part" ] && return 0; done
  return 1
}

prepare_tools() { # PART...
  step "packages" "$LAB/call.sh" install_packages || return 1
  step "Deno" "$LAB/call.sh" install_deno || return 1
  say "         Deno: $(cat "$CACHE/how-deno")"
  if wants k8s "$@" && ! "$LAB/k8s/build.sh" --check; then
    step "Go" "$LAB/call.sh" install_go || return 1
    say "         Go: $(cat "$CACHE/how-go")"
  fi
}

prepare_beside_kubernetes() { # PART...
  ! wants openstack "$@" || step_bg "OpenStack: install" "$LAB/openstack.sh" prepare
  step_bg "Deno modules" "$LAB/call.sh" fetch_modules
  if wants all "$@"; then
    step_bg "Deno for compiling" "$LAB/call.sh" install_denort
    step_bg "emulated kernel" "$LAB/emulated/setup.sh"
  fi
  step_wait || return 1
  ! wants all "$@" || say "         deno compile: $(cat "$CACHE/how-compile")"
}

# prepare PART...: installs and builds; long things side by side.
prepare() {
  prepare_tools "$@" || return 1
  ! wants k8s "$@" || step_bg "Kubernetes: build and images" "$LAB/k8s.sh" prepare
  prepare_beside_kubernetes "$@"
}

# prepare_for_tests: everything; Kubernetes goes on being built when this returns, wait for $KUBERNETES_PREPARED.
prepare_for_tests() {
  prepare_tools all || return 1
  step_run "Kubernetes: build and images" "$LAB/k8s.sh" prepare &
  KUBERNETES_PREPARED=$!
  prepare_beside_kubernetes all
}

lab_up() {
  # whichever needs the bridge finds it: both may then start side by side
  bridge_up || return 1
  ! wants k8s "$@" || step_bg "Kubernetes: up" "$LAB/k8s.sh" up
  ! wants openstack "$@" || step_bg "OpenStack: up" "$LAB/openstack.sh" up
  step_wait || return 1
  if "$LAB/k8s.sh" status > /dev/null && "$LAB/openstack.sh" status > /dev/null; then
    step "nodes joined with servers" "$LAB/join.sh" || return 1
  fi
  if wants partner "$@"; then
    step "fabric: up" "$LAB/fabric.sh" up || return 1
    step "partner: up" "$LAB/partner.sh" up || return 1
  fi
  if wants all "$@"; then step "fault proxy: up" "$LAB/proxy.sh" up || return 1; fi
}

lab_down() {
  local code=0
  if wants all "$@"; then step "fault proxy: down" "$LAB/proxy.sh" down || code=1; fi
  if wants partner "$@"; then
    step "partner: down" "$LAB/partner.sh" down || code=1
    step "fabric: down" "$LAB/fabric.sh" down || code=1
  fi
  if wants openstack "$@"; then step "OpenStack: down" "$LAB/openstack.sh" down || code=1; fi
  if wants k8s "$@"; then step "Kubernetes: down" "$LAB/k8s.sh" down || code=1; fi
  bridge_down_if_idle
  return $code
}

# lab_status PART...: a line for each; 0 when all are up, 3 when one is not.
lab_status() {
  local part code=0
  for part in k8s openstack partner; do
    if wants $part "$@"; then "$LAB/$part.sh" status || code=3; fi
  done
  if wants partner "$@"; then "$LAB/fabric.sh" status || code=3; fi
  if wants all "$@"; then "$LAB/proxy.sh" status || code=3; fi
  [ ! -e "$LOCK" ] || say "lock: '$(lock_field command)' in $(lock_field directory) since $(lock_field since)"
  return $code
}
