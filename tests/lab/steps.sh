# Steps with a name, a time and a log; sourced.
STARTED=$SECONDS
STEP_PIDS=() STEP_NAMES=()

say() { printf '%s\n' "$*"; }

# step_run NAME COMMAND...: runs it with its output in a log; one line with the seconds it took. On failure the end of the log.
step_run() {
  local name=$1 log started=$SECONDS code=0
  shift
  log=$LOG_DIR/$(printf %s "$name" | tr -c 'a-zA-Z0-9_\n-' _).log
  "$@" > "$log" 2>&1 < /dev/null || code=$?
  if [ $code = 0 ]; then
    printf '[%4d s] %-42s %4d s\n' $((SECONDS - STARTED)) "$name" $((SECONDS - started))
    return
  fi
  printf '[%4d s] %-42s FAILED after %d s (exit code %d); the end of %s:\n' $((SECONDS - STARTED)) "$name" $((SECONDS - started)) $code "$log" >&2
  tail -n 25 "$log" | sed 's/^/    /' >&2
  return $code
}

# step NAME COMMAND...: as step_run; the name is shown while it runs where somebody watches.
step() {
  [ ! -t 1 ] || printf '[%4d s] %s …\r' $((SECONDS - STARTED)) "$1"
  step_run "$@"
}

# step_bg NAME COMMAND...: the same beside others; step_wait collects all of them.
step_bg() {
  step_run "$@" &
  STEP_PIDS+=($!) STEP_NAMES+=("$1")
}

# step_wait: waits for every step_bg; fails when one failed.
step_wait() {
  local pid code=0
  for pid in "${STEP_PIDS[@]}"; do wait "$pid" || code=1; done
  STEP_PIDS=() STEP_NAMES=()
  return $code
}
