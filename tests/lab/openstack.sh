#!/usr/bin/env bash
# Real Keystone, Neutron, Nova and Placement on this machine, from PyPI and the distribution's MariaDB. An ML2 driver stands
# in for the L2/L3 agents and Nova's fake hypervisor for compute. Seeded: projects, an application credential, external
# network 203.0.113.0/24, tenant network and router, servers node-1 and node-2. Each start begins from the seeded state.
#   openstack.sh prepare|up|down|status
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$LAB/process.sh"
. "$LAB/network.sh"

OSLAB_HOST=$LAB_IP
OSLAB_TOKEN_TTL=${OSLAB_TOKEN_TTL:-3600} OSLAB_TOKEN_CACHE=${OSLAB_TOKEN_CACHE:--1} OSLAB_SG_QUOTA=${OSLAB_SG_QUOTA:-10}
VENV=$OS/venv BIN=$OS/venv/bin ETC=$OS/etc RUN=$OS_RUN LOG=$LOG_DIR/openstack DATA=$OS/data SOCK=$OS_RUN/mysql.sock
P_KEYSTONE=5000 P_NEUTRON=9696 P_NOVA=8774 P_PLACEMENT=8778
ADMIN_PW=adminpw SVC_PW=svcpw TENANT_PW=tenantpw
export OSLAB_HOST OSLAB_CHANGED=$OS_CHANGED OSLAB_DATA=$DATA
# Neutron's migrations refuse SQLite.
dburl() { echo "mysql+pymysql://root@localhost/$1?unix_socket=$SOCK&charset=utf8mb4"; }
sql() { mariadb --no-defaults -uroot -S "$SOCK" "$@"; }

prepare() {
  local python=python3 candidate packages stamp
  for candidate in /usr/bin/python3.11 /usr/bin/python3; do [ ! -x $candidate ] || { python=$candidate && break; }; done
  mkdir -p "$OS"
  stamp=$VENV/.installed-$(cat "$LAB"/openstack/requirements.lock "$LAB"/openstack/oslab_ml2/*.py | sha256sum | cut -c1-16)
  [ ! -e "$stamp" ] || return 0
  [ -x "$BIN/python" ] || $python -m venv "$VENV"
  [ -x "$BIN/uv" ] || "$BIN/pip" install -q --disable-pip-version-check uv
  "$BIN/uv" pip install -q --python "$BIN/python" -r "$LAB/openstack/requirements.lock"
  packages=$("$BIN/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  rm -rf "$packages"/oslab_ml2*
  cp -r "$LAB/openstack/oslab_ml2" "$packages/"
  mkdir -p "$packages/oslab_ml2-1.0.dist-info"
  printf 'Metadata-Version: 2.1\nName: oslab-ml2\nVersion: 1.0\n' > "$packages/oslab_ml2-1.0.dist-info/METADATA"
  printf '[neutron.ml2.mechanism_drivers]\noslab = oslab_ml2:OslabMechanismDriver\n' > "$packages/oslab_ml2-1.0.dist-info/entry_points.txt"
  rm -f "$VENV"/.installed-*
  touch "$stamp"
}

# golden: the path of the seeded state made by exactly these sources.
golden() { echo "$OS/golden-$(cat "$0" "$LAB"/openstack/{conf.sh,seed.py,requirements.lock} <(echo "$OSLAB_HOST") | sha256sum | cut -c1-16).tar"; }

start() { daemon "$RUN/$1.pid" "$LOG/$1.log" env "${@:2}"; }

wait_http() { # URL NAME
  local i code
  for ((i = 0; i < 900; i++)); do
    code=$(curl -s --noproxy '*' -o /dev/null -m 5 -w '%{http_code}' "$1" || true)
    case $code in 200 | 300 | 401) return ;; esac
    any_alive "$RUN/$2.pid" || { echo "$2 ended:" >&2 && tail -30 "$LOG/$2.log" >&2 && exit 1; }
    sleep 0.2
  done
  echo "$2 does not answer at $1: last code $code" >&2
  exit 1
}

start_database() {
  start mariadb mariadbd --no-defaults --user=root --datadir="$DATA/mysql" --socket="$SOCK" --skip-networking --skip-log-bin \
    --innodb-buffer-pool-size=64M --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 \
    --performance-schema=0 --max-connections=300 --character-set-server=utf8mb4 --pid-file="$RUN/mariadb.own-pid"
  until_true 60 sql -e 'select 1' || { tail -20 "$LOG/mariadb.log" >&2 && exit 1; }
}

wsgi() { # NAME PORT MODULE THREADS ENV...
  start "$1" "${@:5}" "$BIN/python" "$LAB/openstack/serve.py" "$3" "$OSLAB_HOST" "$2" "$4"
}

start_services() {
  wsgi keystone $P_KEYSTONE keystone.wsgi.api 4 OS_KEYSTONE_CONFIG_FILES="$ETC/keystone/keystone.conf"
  wsgi placement $P_PLACEMENT placement.wsgi.api 2 OS_PLACEMENT_CONFIG_DIR="$ETC/placement"
  wsgi neutron $P_NEUTRON neutron.wsgi.api 4 OS_NEUTRON_CONFIG_DIR="$ETC/neutron" OS_NEUTRON_CONFIG_FILES=neutron.conf
  wait_http "http://$OSLAB_HOST:$P_KEYSTONE/v3" keystone
  [ "$1" = seeded ] || "$BIN/python" "$LAB/openstack/seed.py" identity
  wait_http "http://$OSLAB_HOST:$P_NEUTRON/" neutron
  wait_http "http://$OSLAB_HOST:$P_PLACEMENT/" placement
  start nova "$BIN/python" "$LAB/openstack/nova_aio.py" "$ETC/nova/nova.conf" "$OSLAB_HOST" $P_NOVA 8
  [ "$1" = seeded ] || "$BIN/python" "$LAB/openstack/seed.py" network
  wait_http "http://$OSLAB_HOST:$P_NOVA/" nova
  [ "$1" = seeded ] || "$BIN/python" "$LAB/openstack/seed.py" compute
}

create_databases() {
  local name url=http://$OSLAB_HOST:$P_KEYSTONE/v3 keystone nova
  for name in keystone neutron nova_api nova_cell0 nova_cell1 placement; do sql -e "create database $name character set utf8mb3"; done
  keystone="--config-file $ETC/keystone/keystone.conf" nova="--config-file $ETC/nova/nova.conf"
  rm -rf "$ETC"/keystone/*-keys
  # shellcheck disable=SC2086 # the options are two words
  {
    "$BIN/keystone-manage" $keystone db_sync
    "$BIN/keystone-manage" $keystone fernet_setup --keystone-user root --keystone-group root
    "$BIN/keystone-manage" $keystone credential_setup --keystone-user root --keystone-group root
    "$BIN/keystone-manage" $keystone bootstrap --bootstrap-password $ADMIN_PW --bootstrap-region-id RegionOne \
      --bootstrap-public-url "$url" --bootstrap-internal-url "$url" --bootstrap-admin-url "$url"
  } > "$LOG/sync-keystone.log" 2>&1
  "$BIN/neutron-db-manage" --config-file "$ETC/neutron/neutron.conf" upgrade heads > "$LOG/sync-neutron.log" 2>&1
  OS_PLACEMENT_CONFIG_DIR=$ETC/placement "$BIN/placement-manage" --config-file "$ETC/placement/placement.conf" db sync > "$LOG/sync-placement.log" 2>&1
  # shellcheck disable=SC2086
  (
    export OS_NOVA_DISABLE_EVENTLET_PATCHING=true
    "$BIN/nova-manage" $nova api_db sync
    "$BIN/nova-manage" $nova cell_v2 map_cell0 --database_connection "$(dburl nova_cell0)"
    "$BIN/nova-manage" $nova cell_v2 create_cell --name cell1 --database_connection "$(dburl nova_cell1)" --transport-url fake://
    "$BIN/nova-manage" $nova db sync
  ) > "$LOG/sync-nova.log" 2>&1
}

seed() {
  rm -rf "$RUN" "$DATA" "$ETC"
  mkdir -p "$RUN" "$DATA/mysql" "$LOG"
  . "$LAB/openstack/conf.sh"
  mariadb-install-db --no-defaults --user=root --datadir="$DATA/mysql" --auth-root-authentication-method=normal \
    --skip-test-db --innodb-log-file-size=16M > "$LOG/mysql-install.log" 2>&1
  start_database
  create_databases
  start_services unseeded
  stop
  rm -f "$OS"/golden-*.tar
  tar -cf "$1.tmp" -C "$OS" data etc/keystone/fernet-keys etc/keystone/credential-keys
  mv "$1.tmp" "$1"
}

up() {
  local golden
  if any_alive "$RUN"/*.pid; then echo "already up" && return; fi
  bridge_up
  mkdir -p "$LOG"
  golden=$(golden)
  [ -e "$golden" ] || seed "$golden"
  rm -rf "$RUN" "$DATA"
  mkdir -p "$RUN" "$DATA"
  tar -xf "$golden" -C "$OS"
  . "$LAB/openstack/conf.sh"
  cat "$DATA/appcred.yaml" >> "$OS/clouds.yaml"
  date +%s%N > "$OS_CHANGED"
  start_database
  start_services seeded
}

stop() {
  daemon_stop TERM 10 "$RUN"/{nova,neutron,placement,keystone}.pid
  daemon_stop TERM 10 "$RUN/mariadb.pid"
}

down() {
  stop
  rm -rf "$RUN"
  bridge_down_if_idle
}

status() {
  if ! any_alive "$RUN"/*.pid; then echo "openstack: down" && return 3; fi
  echo "openstack: up, $OS_AUTH_URL, clouds lab (tenant), lab-appcred, lab-admin: export OS_CLIENT_CONFIG_FILE=$OS/clouds.yaml"
}

case ${1:-} in
  prepare | up | down | status) "$1" ;;
  *) echo "usage: openstack.sh prepare|up|down|status" >&2 && exit 2 ;;
esac
