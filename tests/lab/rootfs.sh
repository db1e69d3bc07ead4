# Building a root filesystem for an image from programs installed on this machine; sourced.

# rootfs_new DIR: the skeleton. Users: root, nobody and the unprivileged 65532 that the controller runs as.
rootfs_new() {
  mkdir -p "$1"/{dev,etc,proc,sys,run,root,tmp,var/lib,usr/bin,usr/sbin,usr/lib,usr/lib64}
  local dir
  for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$1/$dir"; done
  ln -s ../run "$1/var/run"
  chmod 1777 "$1/tmp"
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nnonroot:x:65532:65532:nonroot:/:/bin/false\n' > "$1/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\n' > "$1/etc/group"
  echo 'hosts: files dns' > "$1/etc/nsswitch.conf"
}

# rootfs_libraries DIR FILE: copies every library that FILE is linked with. The links of a soname become files.
rootfs_libraries() {
  local library
  { ldd "$2" 2> /dev/null | grep -oE '/[^ ]+\.so[^ ]*' || true; } | while read -r library; do
    mkdir -p "$1$(dirname "$library")"
    [ -e "$1$library" ] || cp -L "$library" "$1$library"
  done
}

# rootfs_program DIR FILE [AS]: one program with its libraries, at the path it has here or at AS.
rootfs_program() {
  local file as
  file=$(readlink -f "$2")
  as=${3:-$2}
  mkdir -p "$1$(dirname "$as")"
  cp "$file" "$1$as"
  rootfs_libraries "$1" "$file"
}

# rootfs_file DIR FILE...: files at the paths they have here.
rootfs_file() {
  local root=$1 file
  shift
  for file in "$@"; do
    mkdir -p "$root$(dirname "$file")"
    cp -L "$file" "$root$file"
  done
}

# rootfs_iptables DIR: the nft backend only; the legacy one needs NET_RAW.
rootfs_iptables() {
  local command suffix modules
  rootfs_program "$1" /usr/sbin/xtables-nft-multi
  for command in iptables ip6tables; do
    for suffix in '' -save -restore; do ln -sf xtables-nft-multi "$1/usr/sbin/$command$suffix"; done
  done
  modules=$(dirname "$(find /usr/lib -name libxt_standard.so | head -1)")
  mkdir -p "$1$modules"
  cp -a "$modules/." "$1$modules/"
}

# rootfs_busybox DIR: busybox for every applet that is not there yet. Its shell would run its own applets before what is
# in PATH (its ip has no vxlan), so /bin/sh should be dash where that matters.
rootfs_busybox() {
  local applet
  cp /bin/busybox "$1/bin/busybox"
  for applet in $(/bin/busybox --list); do
    [ -e "$1/usr/bin/$applet" ] || [ -e "$1/usr/sbin/$applet" ] || ln -s busybox "$1/bin/$applet"
  done
}
