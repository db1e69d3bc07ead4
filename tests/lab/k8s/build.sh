#!/usr/bin/env bash
# Builds the cluster's executables from the Go module proxy alone (no git, no container registry) into $CACHE/k8s:
#   bin-one/hyper       etcd, all Kubernetes components and kubectl in one binary, links beside it (one compile of all)
#   bin-one/helm        from the same module graph
#   bin/cni/mini-multus a stand-in for Multus, which the proxy does not serve
#   bin/pause           PID 1 of every pod
# build.sh --check: only whether all of it is there. Each is built again only when its source or its versions change. The Go caches (4.3 GB) go when all is built.
set -euo pipefail
. "$(dirname "$0")/../env.sh"
here=$(cd "$(dirname "$0")" && pwd)

K8S_VERSION=v1.34.4
HELM_VERSION=v3.19.5 # the release whose k8s.io modules are those of K8S_VERSION
CNI_LIBRARY_VERSION=v1.3.0
export GOMODCACHE=$K8S/gomod GOCACHE=$K8S/gocache CGO_ENABLED=0 GOFLAGS="-buildvcs=false -mod=mod" GOTOOLCHAIN=local
mkdir -p "$K8S"/{bin-one,bin/cni,src,stamps}

# stamp NAME WHAT...: the path whose existence says that NAME was built from exactly this.
stamp() { echo "$K8S/stamps/$1-$(cat "${@:2}" <(echo "$K8S_VERSION $HELM_VERSION $CNI_LIBRARY_VERSION") | sha256sum | cut -c1-16)"; }
stamped() { rm -f "$K8S/stamps/$1"-*; touch "$2"; }

# go_build MODULE OUT PACKAGE [LDFLAGS]
go_build() {
  local started=$SECONDS
  (cd "$1" && nice go build -trimpath -ldflags "-s -w ${4:-}" -o "$2.tmp" "$3")
  mv "$2.tmp" "$2"
  echo "built ${2##*/} in $((SECONDS - started)) s"
}

# k8s.io/kubernetes replaces its staging modules by ./staging paths, which a module download does not have: each one is
# repeated as a replace to v0.MINOR.PATCH.
write_go_mod() {
  local dir=$1 upstream staging=v0.${K8S_VERSION#v1.}
  upstream=$(cd "$dir" && GOFLAGS=-buildvcs=false go mod download -json "k8s.io/kubernetes@$K8S_VERSION" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  {
    echo "module lab/hyper"
    grep -E '^go ' "$upstream"
    grep -E '^godebug default' "$upstream" || sed -n '/^godebug (/,/^)/p' "$upstream"
    echo "require k8s.io/kubernetes $K8S_VERSION"
    echo "replace ("
    sed -n 's/^[[:space:]]*\(k8s.io\/[a-z0-9-]*\) => \.\/staging.*/\1/p' "$upstream" | sort -u | sed "s|.*|\t& => & $staging|"
    echo ")"
  } > "$dir/go.mod"
  (cd "$dir" && go mod download all && go get -tool "helm.sh/helm/v3/cmd/helm@$HELM_VERSION")
}

version_flags() {
  local package
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- ' -X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=34 -X %s.gitTreeState=clean -X %s.buildDate=1970-01-01T00:00:00Z' \
      $package $K8S_VERSION $package $package $package $package
  done
}

helm_flags() {
  local package
  printf -- '-X helm.sh/helm/v3/internal/version.version=%s' $HELM_VERSION
  for package in lint/rules chartutil; do
    printf -- ' -X helm.sh/helm/v3/pkg/%s.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/%s.k8sVersionMinor=34' $package $package
  done
}

hyper=$(stamp hyper "$here/hyper/main.go")
multus=$(stamp mini-multus "$here/mini-multus/main.go")
pause=$(stamp pause "$here/pause/main.go")
if [ "${1:-}" = --check ]; then
  for file in "$hyper" "$multus" "$pause" "$K8S"/bin-one/{hyper,helm} "$K8S"/bin/{cni/mini-multus,pause}; do
    [ -e "$file" ] || exit 1
  done
  exit
fi

if [ ! -e "$hyper" ] || [ ! -x "$K8S/bin-one/hyper" ] || [ ! -x "$K8S/bin-one/helm" ]; then
  module=$K8S/src/hyper
  rm -rf "$module" && mkdir -p "$module/hyper" && cp "$here/hyper/main.go" "$module/hyper/"
  write_go_mod "$module"
  go_build "$module" "$K8S/bin-one/hyper" ./hyper "$(version_flags)"
  go_build "$module" "$K8S/bin-one/helm" helm.sh/helm/v3/cmd/helm "$(helm_flags)"
  stamped hyper "$hyper"
fi
for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
  ln -sf hyper "$K8S/bin-one/$name"
done

if [ ! -e "$multus" ] || [ ! -x "$K8S/bin/cni/mini-multus" ]; then
  module=$K8S/src/mini-multus
  rm -rf "$module" && mkdir -p "$module" && cp "$here/mini-multus/main.go" "$module/"
  (cd "$module" && GOFLAGS=-buildvcs=false go mod init lab/mini-multus && go get "github.com/containernetworking/cni@$CNI_LIBRARY_VERSION")
  go_build "$module" "$K8S/bin/cni/mini-multus" .
  stamped mini-multus "$multus"
fi

if [ ! -e "$pause" ] || [ ! -x "$K8S/bin/pause" ]; then
  module=$K8S/src/pause
  rm -rf "$module" && mkdir -p "$module" && cp "$here/pause/main.go" "$module/"
  (cd "$module" && GOFLAGS=-buildvcs=false go mod init lab/pause)
  go_build "$module" "$K8S/bin/pause" .
  stamped pause "$pause"
fi

if [ -d "$GOMODCACHE" ] && [ "${KEEP_GO_CACHES:-0}" = 0 ]; then
  chmod -R u+w "$GOMODCACHE"
  rm -rf "$GOMODCACHE" "$GOCACHE"
fi
