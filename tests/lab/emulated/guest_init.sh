# PID 1 inside the guest, the machine's tree (copy-on-write) as /.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8
mount -t proc p /proc
mount -t sysfs s /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 d /dev/pts
mount -t tmpfs -o mode=1777 s /dev/shm
mount -t tmpfs -o mode=755 r /run
mkdir -p /run/lock /run/netns
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
. /.control/variables
mkdir -p "/lib/modules/$version"
mount --bind "$cache/kernel/lib/modules/$version" "/lib/modules/$version"
echo /sbin/modprobe > /proc/sys/kernel/modprobe
hostname guest
ip link set lo up
for module in $modules; do modprobe -q "$module" || echo "guest_init: no module $module" > /dev/console; done
port=/dev/null
for entry in /sys/class/virtio-ports/*; do
  [ "$(cat "$entry/name" 2> /dev/null)" = out ] && port=/dev/${entry##*/}
done
. /.control/environment
cd "$cwd" 2> /dev/null || cd /
bash /.control/command < /dev/null > "$port" 2>&1
code=$?
echo $code > /.control/code.new
mv /.control/code.new /.control/code
sync
echo b > /proc/sysrq-trigger
sleep 60
