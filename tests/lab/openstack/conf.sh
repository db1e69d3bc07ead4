# Writes the configuration files of all four services; sourced by openstack.sh. OSLAB_TOKEN_TTL (seconds),
# OSLAB_TOKEN_CACHE (-1: every call asks Keystone, so that a revoked token fails at once) and OSLAB_SG_QUOTA shape them.
mkdir -p $ETC/keystone $ETC/neutron $ETC/nova $ETC/placement $RUN $LOG $DATA/nova-state $RUN/locks
authtoken() { cat <<X
[keystone_authtoken]
www_authenticate_uri = http://$OSLAB_HOST:$P_KEYSTONE
auth_url = http://$OSLAB_HOST:$P_KEYSTONE
auth_type = password
project_domain_name = Default
user_domain_name = Default
project_name = service
username = svc
password = $SVC_PW
service_token_roles = service
service_token_roles_required = true
token_cache_time = $OSLAB_TOKEN_CACHE
X
}
svcauth() { cat <<X
[$1]
auth_url = http://$OSLAB_HOST:$P_KEYSTONE
auth_type = password
project_domain_name = Default
user_domain_name = Default
project_name = service
username = svc
password = $SVC_PW
region_name = RegionOne
X
}
dbopts() { echo "connection = $(dburl $1)"; echo "max_pool_size = 20"; echo "max_overflow = 20"; }
cat > $ETC/keystone/keystone.conf <<X
[DEFAULT]
use_stderr = true
transport_url = fake://
[database]
$(dbopts keystone)
[token]
provider = fernet
expiration = $OSLAB_TOKEN_TTL
[fernet_tokens]
key_repository = $ETC/keystone/fernet-keys
[fernet_receipts]
key_repository = $ETC/keystone/fernet-keys
[credential]
key_repository = $ETC/keystone/credential-keys
[identity]
password_hash_rounds = 4
[cache]
enabled = true
backend = oslo_cache.dict
[oslo_messaging_notifications]
driver = noop
X
cat > $ETC/neutron/neutron.conf <<X
[DEFAULT]
core_plugin = ml2
service_plugins = router
auth_strategy = keystone
transport_url = fake://
use_stderr = true
api_paste_config = $VENV/etc/neutron/api-paste.ini
state_path = $DATA/neutron-state
dhcp_agent_notification = false
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
bind_host = $OSLAB_HOST
[oslo_concurrency]
lock_path = $RUN/locks
[database]
$(dbopts neutron)
[quotas]
quota_security_group = $OSLAB_SG_QUOTA
[oslo_messaging_notifications]
driver = noop
$(authtoken)
$(svcauth nova)
$(svcauth placement)
[ml2]
type_drivers = flat,vlan,vxlan,local
tenant_network_types = vxlan
mechanism_drivers = oslab
extension_drivers = port_security
[ml2_type_flat]
flat_networks = external
[ml2_type_vlan]
network_vlan_ranges = provider:100:200
[ml2_type_vxlan]
vni_ranges = 1:1000
[securitygroup]
enable_security_group = true
X
cat > $ETC/nova/nova.conf <<X
[DEFAULT]
host = lab-compute
compute_driver = oslab.OslabDriver
transport_url = fake://
use_stderr = true
state_path = $DATA/nova-state
my_ip = $OSLAB_HOST
enabled_apis = osapi_compute
osapi_compute_workers = 1
vif_plugging_timeout = 0
vif_plugging_is_fatal = false
heal_instance_info_cache_interval = 60
sync_power_state_interval = -1
update_resources_interval = 60
[oslo_concurrency]
lock_path = $RUN/locks
[api]
auth_strategy = keystone
[api_database]
$(dbopts nova_api)
[database]
$(dbopts nova_cell1)
[oslo_messaging_notifications]
driver = noop
[conductor]
workers = 1
[scheduler]
workers = 1
[glance]
api_servers = http://$OSLAB_HOST:9292
[key_manager]
backend = nova.keymgr.conf_key_mgr.ConfKeyManager
fixed_key = 0000000000000000000000000000000000000000000000000000000000000000
[service_user]
send_service_user_token = false
$(authtoken)
$(svcauth placement)
$(svcauth neutron)
X
cp -n $VENV/etc/nova/api-paste.ini $ETC/nova/ 2>/dev/null || true
cat > $ETC/placement/placement.conf <<X
[DEFAULT]
use_stderr = true
[placement_database]
$(dbopts placement)
[api]
auth_strategy = keystone
$(authtoken)
X
cat > $OS/clouds.yaml <<X
clouds:
  lab-admin:
    auth: {auth_url: http://$OSLAB_HOST:$P_KEYSTONE/v3, username: admin, password: $ADMIN_PW, project_name: admin, user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
  lab:
    auth: {auth_url: http://$OSLAB_HOST:$P_KEYSTONE/v3, username: tenant, password: $TENANT_PW, project_name: tenant, user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
X
