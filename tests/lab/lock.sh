# One lab per machine: the bridge, the addresses and the ports exist once. Sourced. The lock says who holds it; it is held
# while a command runs and for as long as a lab that it started is up. A holder that is gone, with no lab left, holds nothing.
LOCK=/run/ipsec-operator-lab.lock

lock_field() { sed -n "s/^$1=//p" "$LOCK" 2> /dev/null || true; }

# lab_alive CACHE: true when a daemon of the lab kept in that cache lives.
lab_alive() { any_alive "$1"/k8s/run/pids/*.pid "$1"/openstack/run/*.pid "$1"/run/*.pid; }

lock_write() {
  {
    echo "pid=$$"
    echo "started=$(pid_start $$)"
    echo "directory=$REPO"
    echo "cache=$CACHE"
    echo "command=$1"
    echo "since=$(date '+%F %T')"
  } > "$LOCK"
}

# lock_take COMMAND: takes the lock or says who has it and exits with 3.
lock_take() {
  local pid cache
  (
    flock -w 10 8 || { echo "Cannot take the lab's lock: $LOCK.guard is busy" >&2 && exit 3; }
    pid=$(lock_field pid) cache=$(lock_field cache)
    if [ -n "$pid" ] && [ "$pid" != $$ ] && [ "$(pid_start "$pid")" = "$(lock_field started)" ]; then
      echo "Cannot use the lab: it is held by process $pid, '$(lock_field command)' in $(lock_field directory) since $(lock_field since)" >&2
      exit 3
    fi
    if [ -n "$cache" ] && { [ "$cache" != "$CACHE" ] || [ "$(lock_field directory)" != "$REPO" ]; } && lab_alive "$cache"; then
      echo "Cannot use the lab: '$(lock_field command)' in $(lock_field directory) left one up at $(lock_field since)." >&2
      echo "End it first: cd $(lock_field directory) && IPSEC_OPERATOR_CACHE=$cache ./run down" >&2
      exit 3
    fi
    lock_write "$1"
  ) 8> "$LOCK.guard"
}

# lock_release: at the end of a command. While a lab is up the lock stays, and names the command that left it.
lock_release() {
  [ "$(lock_field pid)" = $$ ] || return 0
  lab_alive "$CACHE" || rm -f "$LOCK" "$LOCK.guard"
}
