#!/usr/bin/env bash
# One node: a process in namespaces of its own, so several fit on one machine and killing one pid is a power cut.
#   node.sh start|kill N
set -euo pipefail
. "$(dirname "$0")/../env.sh"
. "$LAB/process.sh"
here=$(cd "$(dirname "$0")" && pwd)
number=$2 name=node$2 dir=$K8S_RUN/nodes/node$2 ip=$LAB_NET.$((10 + $2)) cidr=10.244.$2.0/24
pki=$K8S_RUN/pki

write_config() {
  mkdir -p "$dir"/{log,var-log,etc-cni,opt-cni}
  cp -f /usr/lib/cni/* "$K8S/bin/cni/mini-multus" "$dir/opt-cni/"
  echo "nameserver $LAB_IP" > "$dir/resolv.conf"
  cat > "$dir/etc-cni/00-mini-multus.conflist" <<J
{"cniVersion":"0.4.0","name":"mini-multus","plugins":[{"type":"mini-multus","capabilities":{"portMappings":true},
 "server":"$K8S_API","ca":"$pki/ca.crt","cert":"$pki/mini-multus.crt","key":"$pki/mini-multus.key","default":
 {"cniVersion":"0.4.0","name":"lab","plugins":[
  {"type":"bridge","bridge":"cni0","isGateway":true,"isDefaultGateway":true,"ipMasq":false,"hairpinMode":true,
   "ipam":{"type":"host-local","ranges":[[{"subnet":"$cidr"}]]}},
  {"type":"portmap","capabilities":{"portMappings":true}}]}}]}
J
  cat > "$dir/containerd.toml" <<Y
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
Y
  # Image garbage collection is off: what it removed could not be pulled again.
  cat > "$dir/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $pki/kubelet-$name.crt
tlsPrivateKeyFile: $pki/kubelet-$name.key
cgroupDriver: cgroupfs
cgroupRoot: /k8slab/$name
failCgroupV1: false
failSwapOn: false
protectKernelDefaults: false
oomScoreAdj: 0
clusterDNS: ["$LAB_IP"]
clusterDomain: cluster.local
resolvConf: $dir/resolv.conf
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
syncFrequency: 5s
nodeStatusUpdateFrequency: 5s
maxPods: 110
Y
  cat > "$dir/kube-proxy.yaml" <<Y
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $K8S_RUN/kc/proxy.kubeconfig}
mode: nftables
clusterCIDR: 10.244.0.0/16
hostnameOverride: $name
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
Y
}

make_cgroups() {
  local controller at
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then # cgroup v2
    mkdir -p "/sys/fs/cgroup/k8slab/$name"
    for at in /sys/fs/cgroup /sys/fs/cgroup/k8slab /sys/fs/cgroup/k8slab/"$name"; do
      for controller in cpuset cpu io memory pids; do
        echo "+$controller" > "$at/cgroup.subtree_control" 2> /dev/null || true
      done
    done
    return
  fi
  for controller in /sys/fs/cgroup/*; do
    [ -f "$controller/cgroup.procs" ] && [ ! -L "$controller" ] || continue
    mkdir -p "$controller/k8slab/$name"
    # each ancestor in a v1 cpuset must be filled in before runc can use it
    [ -f "$controller/cpuset.cpus" ] || continue
    for at in "$controller/k8slab" "$controller/k8slab/$name"; do
      cat "$controller/cpuset.cpus" > "$at/cpuset.cpus"
      cat "$controller/cpuset.mems" > "$at/cpuset.mems"
    done
  done
}

node_start() {
  local outer inner='' i other
  write_config
  make_cgroups
  ip link del "lab-$name" 2> /dev/null || true
  daemon "$K8S_RUN/pids/$name.pid" "$K8S_RUN/log/$name.log" \
    unshare -m -n -p -u -i -f --mount-proc --kill-child=KILL --propagation private \
    "$here/node-init.sh" "$name" "$dir" "$K8S/bin-one" "$K8S_RUN/kc/kubelet-$name.kubeconfig" "$ip" "$K8S/images"
  outer=$(pid_of "$K8S_RUN/pids/$name.pid")
  for ((i = 0; i < 100; i++)); do
    inner=$(tr -d ' ' < "/proc/$outer/task/$outer/children" 2> /dev/null || true)
    [ -n "$inner" ] && [ "$(readlink "/proc/$inner/ns/net")" != "$(readlink /proc/self/ns/net)" ] && break
    sleep 0.05
  done
  echo "$inner" > "$K8S_RUN/pids/$name.init"
  ip link add "lab-$name" type veth peer name eth0 netns "$inner"
  ip link set "lab-$name" master "$LAB_BRIDGE" up
  ip route replace "$cidr" via "$ip" dev "$LAB_BRIDGE"
  # services as seen from this machine: the API server calls webhooks through them
  [ "$number" != 1 ] || ip route replace 10.96.0.0/16 via "$ip" dev "$LAB_BRIDGE"
  until_true 20 nsenter -t "$inner" -n ip route get "$LAB_IP"
  for ((other = 1; other <= K8S_NODES; other++)); do
    [ "$other" = "$number" ] || nsenter -t "$inner" -n ip route replace "10.244.$other.0/24" via "$LAB_NET.$((10 + other))"
  done
}

case ${1:-} in
  start) node_start ;;
  # unshare holds back TERM; its KILL kills the node's PID 1, and that ends the whole pid namespace
  kill)
    daemon_stop KILL 5 "$K8S_RUN/pids/$name.pid"
    inner=$(cat "$K8S_RUN/pids/$name.init" 2> /dev/null || true)
    [ -z "$inner" ] || until_true 10 test ! -d "/proc/$inner" || true
    ip link del "lab-$name" 2> /dev/null || true
    ;;
  *) echo "usage: node.sh start|kill N" >&2 && exit 2 ;;
esac
