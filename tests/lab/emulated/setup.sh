#!/bin/bash
# setup.sh: gets Debian's stock kernel and makes what run.sh boots: vmlinux, initrd.img and the modules, in
# $IPSEC_OPERATOR_CACHE/emulated. Some 20 s with an empty cache, nothing to do after that. Needs root and apt;
# packages: qemu-system-x86 kmod cpio xz-utils python3.
set -euo pipefail
cache=${IPSEC_OPERATOR_CACHE:-$HOME/.cache/ipsec-operator}/emulated
[ -f "$cache/done" ] && exit 0
mkdir -p "$cache/dl"
cd "$cache"

for tool in qemu-system-x86_64:qemu-system-x86 depmod:kmod cpio:cpio python3:python3; do
  command -v "${tool%:*}" > /dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "${tool%:*}" > /dev/null || {
    echo "emulated kernel: ${tool%:*} is missing, install ${tool#*:}" >&2
    exit 69
  }
done
export PATH=$PATH:/usr/sbin:/sbin

version=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/ {print substr($2, 13); exit}')
[ -n "$version" ] || { echo "emulated kernel: apt knows no linux-image-amd64, run apt-get update" >&2; exit 69; }
ls dl/linux-image-"$version"_*.deb > /dev/null 2>&1 || (cd dl && apt-get -qq -o APT::Sandbox::User=root download "linux-image-$version")
ls dl/busybox-static_*.deb > /dev/null 2>&1 || (cd dl && apt-get -qq -o APT::Sandbox::User=root download busybox-static)
rm -rf kernel busybox
mkdir kernel busybox
dpkg -x dl/linux-image-"$version"_*.deb kernel
dpkg -x dl/busybox-static_*.deb busybox
modules=kernel/lib/modules/$version
# A merged /usr puts them there.
[ -d "$modules" ] || { mkdir -p kernel/lib/modules && mv "kernel/usr/lib/modules/$version" "$modules"; }
depmod -b kernel "$version"
echo "$version" > version

# The uncompressed kernel, booted by its PVH entry: no xz decompression under emulation.
python3 - "kernel/boot/vmlinuz-$version" vmlinux <<'PYTHON'
import lzma, sys
data = open(sys.argv[1], "rb").read()
kernel = lzma.LZMADecompressor().decompress(data[data.find(b"\xfd7zXZ\0"):])
assert kernel[:4] == b"\x7fELF", "the kernel is not packed as this script knows"
open(sys.argv[2], "wb").write(kernel)
PYTHON

rm -rf initrd
mkdir -p initrd/{bin,proc,sys,dev,mnt/host,mnt/over,root,modules}
cp busybox/bin/busybox initrd/bin/
ln -s busybox initrd/bin/sh
: > initrd/modules/order
for module in virtio_pci virtio_console 9pnet_virtio 9p overlay; do
  line=$(grep "/$module.ko:" "$modules/modules.dep")
  needs=$(echo "${line#*:}" | tr ' ' '\n' | tac)
  for file in $needs "${line%%:*}"; do
    name=$(basename "$file")
    grep -qx "$name" initrd/modules/order || echo "$name" >> initrd/modules/order
    [ -e "initrd/modules/$name" ] || cp "$modules/$file" initrd/modules/
  done
done
cat > initrd/init <<'INIT'
#!/bin/sh
# The machine's own tree, copy-on-write, as the guest's root.
b=/bin/busybox
$b mount -t proc p /proc; $b mount -t sysfs s /sys; $b mount -t devtmpfs d /dev
for module in $($b cat /modules/order); do $b insmod /modules/$module || echo "insmod $module failed"; done
o=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o $o,ro,cache=loose host /mnt/host || $b sh
$b mount -t tmpfs -o size=75% t /mnt/over; $b mkdir /mnt/over/u /mnt/over/w
$b mount -t overlay -o lowerdir=/mnt/host,upperdir=/mnt/over/u,workdir=/mnt/over/w o /root || $b sh
$b mount -t devtmpfs d /root/dev
$b mkdir -p /root/.control /root/results
$b mount -t 9p -o $o,rw,cache=none,access=any control /root/.control
$b mount -t 9p -o $o,rw,cache=mmap,access=any results /root/results
$b umount /proc; $b umount /sys; $b umount /dev
exec $b switch_root /root /bin/bash /.control/guest_init.sh
INIT
chmod +x initrd/init
(cd initrd && find . | cpio -o -H newc -R 0:0 --quiet) > initrd.img
rm -rf initrd busybox
touch "$cache/done"
