#!/bin/bash
# run.sh [-t SECONDS] [-r RESULTS_DIR] [-m MIB] [-k 'MODULE MODULE…'] [--] COMMAND…
# Boots Debian's stock kernel under qemu with this machine's / copy-on-write as the guest's /, runs COMMAND there as root
# (same working directory; RESULTS_DIR is writable as /results), prints its output, returns its exit code.
# 124: out of time. 125: the guest died or never got to the end. Needs no KVM; a boot takes some 10 s without.
set -u
here=$(dirname "$(readlink -f "$0")")
cache=${IPSEC_OPERATOR_CACHE:-$HOME/.cache/ipsec-operator}/emulated
limit=300 results='' memory=2048
modules="xfrm_user xfrm_interface esp4 veth"
while [ $# -gt 0 ]; do
  case $1 in
    -t) limit=$2; shift 2 ;;
    -r) results=$2; shift 2 ;;
    -m) memory=$2; shift 2 ;;
    -k) modules="$modules $2"; shift 2 ;;
    --) shift; break ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { sed -n 2,5p "$0" >&2; exit 64; }
"$here/setup.sh" >&2 || exit 125

control=$(mktemp -d -t ipsec-emulated.XXXXXX)
trap 'rm -rf "$control"' EXIT
[ -n "$results" ] || results=$control/results
mkdir -p "$results"
results=$(readlink -f "$results")
cp "$here/guest_init.sh" "$control/"
printf '%s\n' "$*" > "$control/command"
printf 'version=%q\ncache=%q\nmodules=%q\ncwd=%q\n' "$(cat "$cache/version")" "$cache" "$modules" "$PWD" > "$control/variables"
export -p | grep -E '^declare -x (PATH|LANG|GUEST_[A-Za-z0-9_]*)=' > "$control/environment"

# KVM inside a virtual machine may be there and still not run a kernel, so it is asked for, never guessed.
accel=tcg,thread=multi cpu=max,la57=off
if [ "${EMULATED_ACCEL:-tcg}" = kvm ]; then accel=kvm cpu=host; fi
append="console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on no_timer_check cryptomgr.notests raid=noautodetect"
share="security_model=none,multidevs=remap"
# A stdin that never ends: at its end qemu would close the port.
mkfifo "$control/in"
exec 3<> "$control/in"
timeout -k 5 "$limit" qemu-system-x86_64 -M pc -accel $accel -cpu $cpu -smp 2 -m "$memory" \
  -nodefaults -no-user-config -display none -no-reboot \
  -kernel "$cache/vmlinux" -initrd "$cache/initrd.img" -append "$append" \
  -chardev "file,id=con,path=$control/console" -serial chardev:con \
  -chardev stdio,id=out,signal=on,mux=off -device virtio-serial-pci -device virtserialport,chardev=out,name=out \
  -fsdev "local,id=host,path=/,readonly=on,$share" -device virtio-9p-pci,fsdev=host,mount_tag=host \
  -fsdev "local,id=control,path=$control,$share" -device virtio-9p-pci,fsdev=control,mount_tag=control \
  -fsdev "local,id=results,path=$results,$share" -device virtio-9p-pci,fsdev=results,mount_tag=results <&3 &
guest=$!
trap 'kill $guest 2> /dev/null' INT TERM HUP
wait $guest
code=$?
if [ -f "$control/code" ]; then
  code=$(cat "$control/code")
elif [ $code = 124 ] || [ $code = 137 ]; then
  code=124
else
  code=125
  tail -20 "$control/console" >&2
fi
exit "$code"
