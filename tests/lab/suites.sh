# ./run test: sets everything up, runs every suite, tells what came of it; sourced by ./run.
REPORT=$CACHE/run/report
SUITE_LIMIT_S=${SUITE_LIMIT_S:-1500}

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
  [ ! -t 1 ] || printf '[%4d s] %s …\r' $((SECONDS - STARTED)) "$name"
  NO_COLOR=1 timeout --kill-after=30 "$SUITE_LIMIT_S" "$@" --junit-path="$REPORT/$name.xml" > "$log" 2>&1 < /dev/null || code=$?
  printf '{"suite": "%s", "code": %d, "log": "%s", "seconds": %d}\n' "$name" $code "$log" $((SECONDS - started)) >> "$REPORT/parts.jsonl"
  printf '[%4d s] %-42s %4d s  %s\n' $((SECONDS - STARTED)) "$name" $((SECONDS - started)) "$(grep -E '^(ok|FAILED) \|' "$log" | tail -1)"
  [ $code = 0 ] || { echo "    exit code $code; the end of $log:" && tail -n 60 "$log" | sed 's/^/    /'; }
}

# selected NAME FILTER
selected() { [ -z "$2" ] || [[ $1 == *"$2"* ]]; }

unit_suite() {
  local folders=(src status_agent tests/checks tests/lab)
  [ ! -e mod_test.ts ] || folders+=(mod_test.ts)
  suite unit deno test -A --trace-leaks --parallel "${folders[@]}"
}

# lab_ready: all that the behaviour suites need. Each part that fails is told; the suites are then not run.
lab_ready() {
  part "executables" step "executables" deno task compile &&
    part "images" step "images" "$LAB/images.sh" --no-import &&
    part "lab" lab_up all &&
    part "images into the nodes" step "images into the nodes" "$LAB/images.sh"
}

run_tests() {
  local filter=$1 file name suites=() code=0
  rm -rf "$REPORT"
  mkdir -p "$REPORT"
  : > "$REPORT/parts.jsonl"
  announce
  for file in tests/*_test.ts; do
    name=$(basename "$file" _test.ts)
    [ ! -e "$file" ] || ! selected "$name" "$filter" || suites+=("$name")
  done
  [ $KEEP = 1 ] || trap 'lab_down all; lock_release' EXIT
  if part "set-up" prepare all; then
    [ -n "$filter" ] || part "static checks" step "format, lint, types, imports, generated" "$LAB/call.sh" static_checks || true
    ! selected unit "$filter" || unit_suite
    if [ ${#suites[@]} -gt 0 ]; then
      # a lab that somebody left up is not a known state; with --keep it is used as it is
      [ $KEEP = 1 ] || lab_down all > /dev/null
      if lab_ready; then
        for name in "${suites[@]}"; do suite "$name" deno test -A "tests/${name}_test.ts"; done
      fi
    fi
  fi
  if [ $KEEP = 0 ]; then
    trap lock_release EXIT
    part "lab down" lab_down all || true
  fi
  deno run --allow-read --quiet "$LAB/report.ts" "$REPORT" tests/not_run.txt || code=$?
  return $code
}
