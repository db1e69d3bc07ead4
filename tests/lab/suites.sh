# ./run test: sets everything up, runs every suite, tells what came of it; sourced by ./run.
#
# What can go side by side does. Suites that need no lab run from the beginning; those that need only OpenStack while
# Kubernetes is still being built. The others share one operator, one partner and one proxy, and run one after another; and
# not beside OpenStack's, which use up the tenant's quotas.
REPORT=$CACHE/run/report
SUITE_LIMIT_S=${SUITE_LIMIT_S:-900}

lane_of() { # SUITE
  case $1 in
    unit | run | charon* | swanctl | executables | xfrm) echo free ;;
    openstack* | proxy) echo openstack ;;
    kube*) echo kube ;;
    fabric) echo fabric ;;
    *) echo operator ;;
  esac
}

# part NAME COMMAND...: runs it; its failure is a failed result.
part() {
  local name=$1 code=0
  shift
  "$@" || code=$?
  printf '{"suite": "set-up", "name": "%s", "code": %d}\n' "$name" $code >> "$REPORT/parts.jsonl"
  return $code
}

# suite NAME COMMAND...: runs Deno's tests; COMMAND is given --junit-path.
suite() {
  local name=$1 log=$LOG_DIR/$1.log code=0 started=$SECONDS
  shift
  NO_COLOR=1 timeout --kill-after=30 "$SUITE_LIMIT_S" "$@" --junit-path="$REPORT/$name.xml" > "$log" 2>&1 < /dev/null || code=$?
  printf '{"suite": "%s", "code": %d, "log": "%s", "seconds": %d}\n' "$name" $code "$log" $((SECONDS - started)) >> "$REPORT/parts.jsonl"
  {
    printf '[%4d s] %-42s %4d s  %s\n' $((SECONDS - STARTED)) "$name" $((SECONDS - started)) "$(grep -E '^(ok|FAILED) \|' "$log" | tail -1)"
    [ $code = 0 ] || { echo "    exit code $code; the end of $log:" && grep -v '^ *at ' "$log" | tail -n 40 | sed 's/^/    /'; }
  } > "$REPORT/$name.told"
  cat "$REPORT/$name.told" # in one piece: other lanes print too
}

# lane NAME: every selected suite of that lane.
lane() {
  local name
  for name in "${SUITES[@]}"; do
    [ "$(lane_of "$name")" = "$1" ] || continue
    case $name in
      unit) suite unit nice deno test -A --trace-leaks --parallel src status_agent mod_test.ts tests/checks tests/lab ;;
      xfrm) suite xfrm nice deno test -A tests/xfrm_test.ts ;;
      *) suite "$name" deno test -A "tests/${name}_test.ts" ;;
    esac
  done
}

# has LANE...: whether a suite of one of these is selected.
has() {
  local name lane
  for name in "${SUITES[@]}"; do
    for lane in "$@"; do [ "$(lane_of "$name")" != "$lane" ] || return 0; done
  done
  return 1
}

openstack_ready() {
  bridge_up && step "OpenStack: up" "$LAB/openstack.sh" up && step "fault proxy: up" "$LAB/proxy.sh" up
}

kubernetes_ready() {
  wait "$KUBERNETES_PREPARED" && step "Kubernetes: up" "$LAB/k8s.sh" up && step "nodes joined with servers" "$LAB/join.sh" &&
    step "fabric: up" "$LAB/fabric.sh" up && step "partner: up" "$LAB/partner.sh" up &&
    step "images into the nodes" "$LAB/images.sh"
}

run_lanes() {
  local free='' openstack='' fabric=''
  part "executables" step "executables" deno task compile || return 1
  part "images" step "images" "$LAB/images.sh" --no-import || return 1
  lane free &
  free=$!
  if has openstack kube fabric operator; then
    # a lab that somebody left up is not a known state; with --keep it is used as it is
    [ $KEEP = 1 ] || lab_down all > /dev/null || true
    if part "OpenStack" openstack_ready; then
      lane openstack &
      openstack=$!
      if has kube fabric operator && part "Kubernetes" kubernetes_ready; then
        lane kube
        wait $openstack || true
        lane fabric &
        fabric=$!
        lane operator & # not in the foreground: a signal is heeded in wait, not while a command runs
        wait $! $fabric || true
      fi
      wait $openstack || true
    fi
  fi
  wait $free "$KUBERNETES_PREPARED" || true
}

# stop_early: what is left to do when the run is interrupted.
stop_early() {
  # shellcheck disable=SC2046 # one word for each job
  kill_tree $(jobs -p)
  [ $KEEP = 1 ] || lab_down all
  lock_release
}

run_tests() {
  local filter=$1 name code=0
  SUITES=()
  for name in unit tests/*_test.ts; do
    name=$(basename "$name" _test.ts)
    [[ $name != *"$filter"* ]] || SUITES+=("$name")
  done
  [ ${#SUITES[@]} -gt 0 ] || { echo "Cannot test '$filter': no suite has this in its name" >&2 && return 2; }
  rm -rf "$REPORT"
  mkdir -p "$REPORT"
  : > "$REPORT/parts.jsonl"
  announce
  trap 'exit 130' INT TERM
  trap 'stop_early' EXIT
  if part "set-up" prepare_for_tests; then
    [ -n "$filter" ] || part "static checks" step "format, lint, types, imports, generated" "$LAB/call.sh" static_checks || true
    run_lanes || true
  fi
  trap lock_release EXIT
  if [ $KEEP = 0 ]; then
    part "lab down" lab_down all || true
  fi
  deno run --allow-read --quiet "$LAB/report.ts" "$REPORT" tests/not_run.txt || code=$?
  return $code
}
