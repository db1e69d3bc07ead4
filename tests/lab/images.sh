#!/usr/bin/env bash
# The product's three images, packed without a registry from dist/ (compiled first where that is older than the tree) and
# the distribution's packages on this machine, and imported into every running node. Only what changed is done again.
#   images.sh            packs and imports
#   images.sh --no-import
# They hold what the Dockerfiles in charts/images install. Only the lab's strongswan image has tcpdump beside that.
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$LAB/process.sh"
. "$LAB/rootfs.sh"
IMAGES=$CACHE/images
mkdir -p "$IMAGES"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

reference() { echo "localhost/ipsec-operator-$1:dev"; }

# fresh NAME FILE...: whether the archive of NAME was packed from exactly these files, this script and these packages.
# Leaves the key in $key.
fresh() {
  local name=$1
  shift
  key=$(cat "$@" "$LAB/images.sh" "$LAB/rootfs.sh" "$LAB/k8s/mkimage.py" /var/lib/dpkg/status | sha256sum | cut -c1-32)
  [ -e "$IMAGES/$name.tar" ] && [ "$(cat "$IMAGES/$name.key" 2> /dev/null)" = "$key" ]
}

# pack NAME ROOT OPTIONS...
pack() {
  "$LAB/k8s/mkimage.py" "$IMAGES/$1.tar" "$(reference "$1")" "$2" "${@:3}"
  echo "$key" > "$IMAGES/$1.key"
}

# executable ROOT NAME: one of dist/, with the libraries that the runtime is linked with or opens by name.
executable() {
  rootfs_new "$1"
  rootfs_program "$1" "$REPO/dist/$2" "/usr/local/bin/$2"
  rootfs_file "$1" "$(ldconfig -p | awk '/libgcc_s.so.1.*x86-64/ {print $NF; exit}')"
  for library in libnss_dns.so.2 libnss_files.so.2 libresolv.so.2; do # how the C library resolves names
    rootfs_file "$1" "$(ldconfig -p | awk -v l="$library" 'index($0, l) && /x86-64/ {print $NF; exit}')"
  done
}

pack_controller() {
  executable "$work/controller" controller
  rootfs_file "$work/controller" /etc/ssl/certs/ca-certificates.crt
  pack controller "$work/controller" --user 65532:65532 --entrypoint '["/usr/local/bin/controller"]'
}

pack_status_agent() {
  executable "$work/status-agent" status-agent
  for tool in ip nft conntrack; do rootfs_program "$work/status-agent" "$(command -v $tool)"; done
  rootfs_program "$work/status-agent" /bin/dash /bin/sh
  rootfs_busybox "$work/status-agent"
  pack status-agent "$work/status-agent" --env MALLOC_ARENA_MAX=1 --entrypoint '["/usr/local/bin/status-agent"]'
}

pack_strongswan() {
  local root=$work/strongswan plugin
  rootfs_new "$root"
  for tool in charon-systemd swanctl ip nft conntrack tcpdump; do rootfs_program "$root" "$(command -v $tool)"; done
  mkdir -p "$root/usr/lib/ipsec/plugins" "$root/etc/swanctl"
  for plugin in random nonce openssl aes sha1 sha2 hmac kdf gcm ccm ctr cmac gmp curve25519 chapoly pem pkcs1 pkcs8 pubkey x509 \
    constraints revocation kernel-netlink kernel-libipsec socket-default counters vici; do
    rootfs_program "$root" "/usr/lib/ipsec/plugins/libstrongswan-$plugin.so" 2> /dev/null || echo "no plugin $plugin on this machine"
  done
  rootfs_iptables "$root"
  for command in iptables ip6tables; do
    for suffix in '' -save -restore; do ln -sf xtables-nft-multi "$root/usr/sbin/$command-nft$suffix"; done
  done
  # glibc opens it by name for pthread_cancel: without it charon and swanctl abort when they stop
  rootfs_file "$root" "$(ldconfig -p | awk '/libgcc_s.so.1.*x86-64/ {print $NF; exit}')"
  rootfs_program "$root" /bin/dash /bin/sh
  rootfs_busybox "$root"
  rm -f "$root/bin/wget"
  mkdir -p "$root/usr/local/sbin"
  install -m 755 "$REPO"/charts/images/strongswan/{charon-supervisor,nat-apply} "$root/usr/local/sbin/"
  pack strongswan "$root" --env STRONGSWAN_CONF=/run/ipsec/strongswan.conf --cmd '["/usr/local/sbin/charon-supervisor"]'
}

# import INIT: gives the node whose first process INIT names each archive that it has not got yet. nsenter -p too: ctr checks
# the pid namespace of its client against the mounts it makes.
import() {
  local name node have
  node=$(basename "$1" .init)
  for name in controller status-agent strongswan; do
    have=$K8S_RUN/nodes/$node/image-$name
    [ "$(cat "$have" 2> /dev/null)" != "$(cat "$IMAGES/$name.key")" ] || continue
    nsenter -t "$(cat "$1")" -m -n -p ctr -n k8s.io images import --snapshotter overlayfs "$IMAGES/$name.tar" > /dev/null || return 1
    cp "$IMAGES/$name.key" "$have"
    echo "$node has $(reference "$name")"
  done
}

# the images go together with the tree: an older agent would not do what the newer scripts wait for
(cd "$REPO" && deno run -A --quiet tests/lab/compile.ts)
fresh controller "$REPO/dist/controller" || pack_controller
fresh status-agent "$REPO/dist/status-agent" || pack_status_agent
fresh strongswan "$REPO"/charts/images/strongswan/{charon-supervisor,nat-apply} || pack_strongswan
[ "${1:-}" != --no-import ] || exit 0
imports=()
for init in "$K8S_RUN"/pids/node*.init; do
  [ -e "$init" ] || continue
  import "$init" &
  imports+=($!)
done
for import in "${imports[@]}"; do wait "$import"; done
