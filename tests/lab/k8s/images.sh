#!/usr/bin/env bash
# Packs the images that the cluster itself and ordinary pods need, from what is on this machine:
#   pause, busybox, and toolbox (busybox with the machine's iproute2, nftables, iptables, socat, curl, ping).
set -euo pipefail
. "$(dirname "$0")/../env.sh"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../rootfs.sh"
mkdir -p "$K8S/images" "$K8S/stamps"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stamp=$K8S/stamps/images-$(cat "$here/images.sh" "$here/../rootfs.sh" "$here/mkimage.py" "$K8S/bin/pause" /bin/busybox /var/lib/dpkg/status | sha256sum | cut -c1-16)
[ -e "$stamp" ] && exit 0

mkdir "$work/pause"
cp "$K8S/bin/pause" "$work/pause/pause"
"$here/mkimage.py" "$K8S/images/pause.tar" localhost/pause:1 "$work/pause" --entrypoint '["/pause"]'

rootfs_new "$work/busybox"
rootfs_busybox "$work/busybox"
"$here/mkimage.py" "$K8S/images/busybox.tar" localhost/busybox:1 "$work/busybox" --cmd '["sh"]'

toolbox=$work/toolbox
rootfs_new "$toolbox"
for tool in ip bridge tc nft conntrack ethtool socat curl ping bash; do rootfs_program "$toolbox" "$(command -v $tool)"; done
rootfs_program "$toolbox" /bin/dash /bin/sh
rootfs_iptables "$toolbox"
rootfs_busybox "$toolbox"
rm -f "$toolbox/bin/wget" # busybox wget crashes in a static glibc
"$here/mkimage.py" "$K8S/images/toolbox.tar" localhost/toolbox:1 "$toolbox" --cmd '["sh"]'

rm -f "$K8S/stamps"/images-*
touch "$stamp"
