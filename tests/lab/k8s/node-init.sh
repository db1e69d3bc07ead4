#!/usr/bin/env bash
# PID 1 of one node, started by node.sh in its own mount, network, pid, uts and ipc namespaces: ending it ends
# containerd, every shim and every pod, and drops all mounts.
#   node-init.sh NAME DIR BIN KUBECONFIG NODE_IP IMAGES
set -uo pipefail
name=$1 dir=$2 bin=$3 kubeconfig=$4 node_ip=$5 images=$6
log=$dir/log
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unset KUBECONFIG
mount --make-rshared /
hostname "$name"

# A real /sys for this network namespace, with the cgroup mounts of the machine.
mkdir -p "$dir/cg"
mount --rbind /sys/fs/cgroup "$dir/cg" && mount --make-rslave "$dir/cg"
mount -t sysfs sysfs /sys && mount --rbind "$dir/cg" /sys/fs/cgroup
umount -l "$dir/cg"

# Private views of the paths that a node owns.
bind_to() { mkdir -p "$1" "$2" && mount --bind "$1" "$2" && mount --make-rshared "$2"; }
bind_to "$dir/var-lib-kubelet" /var/lib/kubelet
bind_to "$dir/var-lib-containerd" /var/lib/containerd
bind_to "$dir/var-lib-cni" /var/lib/cni
bind_to "$dir/var-log" /var/log
bind_to "$dir/etc-cni" /etc/cni/net.d
bind_to "$dir/opt-cni" /opt/cni/bin
mkdir -p "$dir/run-containerd"
mount -t tmpfs -o mode=755 tmpfs /run && mount --make-rshared /run
mkdir -p /run/containerd /run/netns /run/lock && mount --bind "$dir/run-containerd" /run/containerd

ip link set lo up
for ((i = 0; i < 200; i++)); do ip link show eth0 > /dev/null 2>&1 && break; sleep 0.05; done
ip addr add "$node_ip/24" dev eth0
ip link set eth0 up
ip route replace default via "${node_ip%.*}.1"
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0
sysctl -qw net.bridge.bridge-nf-call-iptables=1 2> /dev/null

start() {
  local what=$1
  shift
  "$@" >> "$log/$what.log" 2>&1 &
  echo $! > "$dir/$what.nspid"
}
start containerd containerd --config "$dir/containerd.toml"
for ((i = 0; i < 200; i++)); do ctr version > /dev/null 2>&1 && break; sleep 0.1; done
for image in "$images"/*.tar; do
  ctr -n k8s.io images import --snapshotter overlayfs "$image" >> "$log/images.log" 2>&1
done
start kubelet "$bin/kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$kubeconfig" --hostname-override="$name" --node-ip="$node_ip" --v=2
start kube-proxy "$bin/kube-proxy" --config="$dir/kube-proxy.yaml" --v=2
trap 'exit 0' TERM INT
while :; do wait -n 2> /dev/null || sleep 1; done
