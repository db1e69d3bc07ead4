#!/usr/bin/env bash
# Kubernetes on this machine: etcd, API server, controller-manager and scheduler here, K8S_NODES nodes in namespaces of
# their own, a small DNS server. Private network: bridge k8slab0 172.30.0.0/24, pods 10.244.N.0/24, services 10.96.0.0/16.
#   k8s.sh prepare|up|down|status
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$LAB/process.sh"
. "$LAB/network.sh"
. "$LAB/k8s/pki.sh"
ETCD=http://127.0.0.1:12379

start() { daemon "$K8S_RUN/pids/$1.pid" "$K8S_RUN/log/$1.log" "${@:2}"; }
ready() { [ "$(kubectl get --raw /readyz 2> /dev/null)" = ok ]; }
alive_or_tail() { # NAME
  any_alive "$K8S_RUN/pids/$1.pid" || { echo "$1 ended:" >&2 && tail -20 "$K8S_RUN/log/$1.log" >&2 && exit 1; }
}

make_certificates() {
  local i
  pki_ca
  pki_cert apiserver /CN=kube-apiserver "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:$LAB_IP"
  pki_cert apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
  pki_cert mini-multus /O=system:masters/CN=mini-multus
  pki_cert admin /O=system:masters/CN=kubernetes-admin
  pki_cert controller-manager /CN=system:kube-controller-manager
  pki_cert scheduler /CN=system:kube-scheduler
  pki_cert proxy /CN=system:kube-proxy
  for i in admin controller-manager scheduler proxy; do pki_kubeconfig $i; done
  for ((i = 1; i <= K8S_NODES; i++)); do
    pki_cert "kubelet-node$i" "/O=system:nodes/CN=system:node:node$i" "DNS:node$i,IP:$LAB_NET.$((10 + i))"
    pki_kubeconfig "kubelet-node$i"
  done
}

# Names that tests need resolve from files put into $K8S_RUN/dns (hosts format, read on change); all others do not exist,
# and that is said at once: nothing here can ask anybody else.
start_dns() {
  mkdir -p "$K8S_RUN/dns"
  start dnsmasq dnsmasq --keep-in-foreground --conf-file=/dev/null --user=root --pid-file= --listen-address="$LAB_IP" --bind-interfaces \
    --no-resolv --no-hosts --local=/#/ --hostsdir="$K8S_RUN/dns" --local-ttl=1 --log-facility=- \
    --host-record=kubernetes.default.svc.cluster.local,10.96.0.1
}

start_control_plane() {
  local kubeconfig
  start etcd etcd --name lab --data-dir "$K8S_RUN/etcd" --listen-client-urls $ETCD --advertise-client-urls $ETCD \
    --listen-peer-urls http://127.0.0.1:12380 --initial-advertise-peer-urls http://127.0.0.1:12380 \
    --initial-cluster lab=http://127.0.0.1:12380 --unsafe-no-fsync --log-level warn
  start kube-apiserver kube-apiserver --etcd-servers=$ETCD --secure-port=6443 --advertise-address="$LAB_IP" \
    --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC --client-ca-file="$P/ca.crt" \
    --tls-cert-file="$P/apiserver.crt" --tls-private-key-file="$P/apiserver.key" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$P/sa.pub" --service-account-signing-key-file="$P/sa.key" \
    --kubelet-certificate-authority="$P/ca.crt" --kubelet-client-certificate="$P/apiserver-kubelet-client.crt" \
    --kubelet-client-key="$P/apiserver-kubelet-client.key" --kubelet-preferred-address-types=InternalIP \
    --enable-admission-plugins=NodeRestriction --allow-privileged=true \
    --audit-policy-file="$LAB/k8s/audit-policy.yaml" --audit-log-path="$K8S_AUDIT_LOG"
  for ((i = 0; i < 600; i++)); do ready && break; alive_or_tail kube-apiserver; sleep 0.1; done
  ready || { echo "kube-apiserver is not ready after 60 s" >&2 && exit 1; }
  kubeconfig=$K8S_RUN/kc/controller-manager.kubeconfig
  start kube-controller-manager kube-controller-manager --kubeconfig="$kubeconfig" --authentication-kubeconfig="$kubeconfig" \
    --authorization-kubeconfig="$kubeconfig" --service-account-private-key-file="$P/sa.key" --root-ca-file="$P/ca.crt" \
    --cluster-signing-cert-file="$P/ca.crt" --cluster-signing-key-file="$P/ca.key" --use-service-account-credentials=true \
    --leader-elect=false --bind-address=127.0.0.1 --allocate-node-cidrs=false --cluster-cidr=10.244.0.0/16
  kubeconfig=$K8S_RUN/kc/scheduler.kubeconfig
  start kube-scheduler kube-scheduler --kubeconfig="$kubeconfig" --authentication-kubeconfig="$kubeconfig" \
    --authorization-kubeconfig="$kubeconfig" --leader-elect=false --bind-address=127.0.0.1
  kubectl apply -f "$LAB/k8s/nad-crd.yaml" > /dev/null
  until_true 30 kubectl -n default get serviceaccount default
}

up() {
  local i
  if any_alive "$K8S_RUN/pids/kube-apiserver.pid"; then echo "already up" && return; fi
  down
  mkdir -p "$K8S_RUN"/{pki,kc,pids,log,etcd,nodes}
  make_certificates
  bridge_up
  # kubelet sets these; down puts the old values back
  sysctl vm.overcommit_memory kernel.panic kernel.panic_on_oops > "$K8S_RUN/sysctl.saved"
  start_dns
  start_control_plane
  for ((i = 1; i <= K8S_NODES; i++)); do "$LAB/k8s/node.sh" start $i; done
  for ((i = 1; i <= K8S_NODES; i++)); do
    until_true 60 kubectl get node node$i || { tail -20 "$K8S_RUN/nodes/node$i/log/kubelet.log" >&2 && exit 1; }
    kubectl patch node node$i -p "{\"spec\":{\"podCIDR\":\"10.244.$i.0/24\",\"podCIDRs\":[\"10.244.$i.0/24\"]}}" > /dev/null
    kubectl wait --for=condition=Ready node/node$i --timeout=60s > /dev/null
  done
  alive_or_tail dnsmasq
  echo "export KUBECONFIG=$KUBECONFIG"
}

down() {
  local i c
  for i in "$K8S_RUN"/pids/node*.pid; do
    [ ! -e "$i" ] || { i=${i##*/node} && "$LAB/k8s/node.sh" kill "${i%.pid}"; }
  done
  daemon_stop TERM 5 "$K8S_RUN"/pids/{kube-scheduler,kube-controller-manager,kube-apiserver,dnsmasq}.pid
  daemon_stop TERM 5 "$K8S_RUN/pids/etcd.pid"
  for c in /sys/fs/cgroup/k8slab /sys/fs/cgroup/*/k8slab; do
    [ ! -d "$c" ] || find "$c" -depth -type d -exec rmdir {} + 2> /dev/null || true
  done
  [ ! -f "$K8S_RUN/sysctl.saved" ] || sed 's/ = /=/' "$K8S_RUN/sysctl.saved" | xargs sysctl -qw
  if [ -d "$K8S_RUN" ]; then # the logs outlive the cluster: a failed test is read afterwards
    rm -rf "$LOG_DIR/k8s" && mkdir -p "$LOG_DIR/k8s"
    mv "$K8S_RUN/log" "$LOG_DIR/k8s/control-plane" 2> /dev/null || true
    for i in "$K8S_RUN"/nodes/*/log; do [ ! -d "$i" ] || mv "$i" "$LOG_DIR/k8s/$(basename "$(dirname "$i")")"; done
  fi
  rm -rf "$K8S_RUN"
  ip route del 10.96.0.0/16 dev "$LAB_BRIDGE" 2> /dev/null || true
  for ((i = 1; i <= K8S_NODES; i++)); do ip route del "10.244.$i.0/24" dev "$LAB_BRIDGE" 2> /dev/null || true; done
  bridge_down_if_idle
}

status() {
  if ! any_alive "$K8S_RUN/pids/kube-apiserver.pid"; then echo "k8s: down" && return 3; fi
  echo "k8s: up, $(kubectl get nodes --no-headers 2> /dev/null | awk '{printf "%s %s  ", $1, $2}') export KUBECONFIG=$KUBECONFIG"
}

case ${1:-} in
  prepare) "$LAB/k8s/build.sh" && "$LAB/k8s/images.sh" ;;
  up | down | status) "$1" ;;
  *) echo "usage: k8s.sh prepare|up|down|status" >&2 && exit 2 ;;
esac
