# Starting and ending daemons by pid files; sourced. A pid file's process counts as ours only while its start time is
# the one that was written down, so that a reused pid is never signalled.

# pid_start PID: the start time of a process in clock ticks since boot, empty when there is none.
pid_start() {
  local stat
  stat=$(cat "/proc/$1/stat" 2> /dev/null) || return 0
  # shellcheck disable=SC2086 # the fields after the command name, which may hold blanks itself
  set -- ${stat##*) }
  [ "$1" = Z ] || echo "${20}"
}

# pid_write FILE PID
pid_write() { echo "$2 $(pid_start "$2")" > "$1"; }

# pid_of FILE: prints the pid if its process is still the one that was started, else fails.
pid_of() {
  local pid started
  { read -r pid started < "$1"; } 2> /dev/null || return 1
  [ -n "${pid:-}" ] && [ -n "${started:-}" ] && [ "$(pid_start "$pid")" = "$started" ] && echo "$pid"
}

# daemon FILE LOG COMMAND...: starts COMMAND in a session of its own, appends its output to LOG, writes FILE. It inherits
# no other open file: a lock or a pipe that the caller holds must not live as long as the daemon.
daemon() {
  local file=$1 log=$2
  shift 2
  (
    for fd in /proc/"$BASHPID"/fd/*; do
      fd=${fd##*/}
      [ "$fd" -le 2 ] || [ "$fd" = 255 ] || eval "exec $fd>&-"
    done
    exec setsid "$@"
  ) >> "$log" 2>&1 < /dev/null &
  pid_write "$file" $!
}

# daemon_stop SIGNAL SECONDS FILE...: signals all, waits, then KILLs what is left.
daemon_stop() {
  local signal=$1 tenths=$(($2 * 10)) file pid i
  shift 2
  for file in "$@"; do pid=$(pid_of "$file") && kill "-$signal" "$pid"; done
  for file in "$@"; do
    for ((i = 0; i < tenths; i++)); do pid_of "$file" > /dev/null || break; sleep 0.1; done
    pid=$(pid_of "$file") && { echo "$(basename "$file" .pid) ($pid) did not stop on $signal, KILL" >&2; kill -KILL "$pid"; }
    rm -f "$file"
  done
  return 0
}

# kill_tree PID...: TERMs processes and everything that they started.
kill_tree() {
  local pid
  for pid in "$@"; do
    # shellcheck disable=SC2046 # one word for each child
    kill_tree $(cat "/proc/$pid"/task/*/children 2> /dev/null)
    kill -TERM "$pid" 2> /dev/null || true
  done
}

# any_alive FILE...: true when one of the pid files has a living process.
any_alive() {
  local file
  for file in "$@"; do [ -e "$file" ] && pid_of "$file" > /dev/null && return 0; done
  return 1
}

# until_true SECONDS COMMAND...: tries every 0.1 s; fails at the deadline.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}
