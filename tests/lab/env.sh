# Settings shared by every bash part of the lab; sourced, never run. Each value can be set from the environment.
# Sources live in the tree, products in $CACHE, so that a checkout stays clean and a second one reuses them.
LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPO=$(cd "$LAB/../.." && pwd)
CACHE=${IPSEC_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ipsec-operator}
mkdir -p "$CACHE/log"
LOG_DIR=$CACHE/log

DENO_VERSION=2.9.8
DENORT_FALLBACK_VERSION=2.6.10 # the newest release whose denort a package registry carries (tests/lab/denort.sh)
GO_VERSION=1.26.6

# The private network of the lab: this machine is .1 on the bridge, the nodes are .11 and .12.
LAB_BRIDGE=k8slab0
LAB_NET=172.30.0
LAB_IP=$LAB_NET.1

K8S=$CACHE/k8s          # binaries, images
K8S_RUN=$K8S/run        # state of a running cluster; pids/node1.init is the first process of node1
K8S_NODES=${K8S_NODES:-2}
K8S_API=https://$LAB_IP:6443
K8S_AUDIT_LOG=$K8S_RUN/log/audit.log

OS=$CACHE/openstack     # the Python environment, the seeded golden copy
OS_RUN=$OS/run
OS_AUTH_URL=http://$LAB_IP:5000/v3
OS_CHANGED=$OS_RUN/changed # rewritten by Neutron and Nova after each change of what the fabric builds from

PROXY_URL=http://$LAB_IP:5900         # the fault proxy, as pods reach it
PROXY_CONTROL_URL=http://127.0.0.1:5901

export KUBECONFIG=$K8S_RUN/kc/admin.kubeconfig
export IPSEC_OPERATOR_CACHE=$CACHE
# npm packages come through the machine's own certificates, as every other download does.
export DENO_TLS_CA_STORE=${DENO_TLS_CA_STORE:-system}
export DENO_NO_UPDATE_CHECK=1
export PATH=$CACHE/deno-$DENO_VERSION:$CACHE/go-$GO_VERSION/bin:$K8S/bin-one:$PATH:/usr/local/go/bin:/usr/sbin:/sbin
