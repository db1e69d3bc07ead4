"""Seeds the lab: identity | network | compute. Writes what others need to know into $OSLAB_DATA."""
import json
import os
import sys

import openstack

HOST, PK, PN, PC, PP = os.environ.get('OSLAB_HOST', '127.0.0.1'), 5000, 9696, 8774, 8778
DATA = os.environ['OSLAB_DATA']
TENANT_PW, SVC_PW = 'tenantpw', 'svcpw'


def conn(user='admin', pw='adminpw', project='admin'):
    return openstack.connect(auth_url=f'http://{HOST}:{PK}/v3', username=user, password=pw, project_name=project,
                             user_domain_name='Default', project_domain_name='Default', region_name='RegionOne')


def identity():
    c = conn(); i = c.identity
    for t, n, url in (('network', 'neutron', f'http://{HOST}:{PN}'), ('compute', 'nova', f'http://{HOST}:{PC}/v2.1'),
                      ('placement', 'placement', f'http://{HOST}:{PP}')):
        s = i.create_service(name=n, type=t)
        for iface in ('public', 'internal', 'admin'):
            i.create_endpoint(service_id=s.id, interface=iface, url=url, region_id='RegionOne')
    dom = 'default'
    roles = {r.name: r for r in i.roles()}
    for r in ('service',):
        if r not in roles:
            roles[r] = i.create_role(name=r)
    psvc = i.create_project(name='service', domain_id=dom)
    svc = i.create_user(name='svc', password=SVC_PW, domain_id=dom, default_project_id=psvc.id)
    for r in ('admin', 'service'):
        i.assign_project_role_to_user(psvc, svc, roles[r])
    for pn, un in (('tenant', 'tenant'), ('other', 'other')):
        p = i.create_project(name=pn, domain_id=dom)
        u = i.create_user(name=un, password=TENANT_PW, domain_id=dom, default_project_id=p.id)
        for r in ('member', 'reader'):
            i.assign_project_role_to_user(p, u, roles[r])
    t = conn('tenant', TENANT_PW, 'tenant')
    ac = t.identity.create_application_credential(user=t.current_user_id, name='lab', secret='appsecret')
    with open(f'{DATA}/appcred.yaml', 'w') as f:
        f.write(f'''  lab-appcred:
    auth_type: v3applicationcredential
    auth: {{auth_url: http://{HOST}:{PK}/v3, application_credential_id: {ac.id}, application_credential_secret: appsecret}}
    region_name: RegionOne
''')


def network():
    a, t = conn(), conn('tenant', TENANT_PW, 'tenant')
    ext = a.network.create_network(name='external', is_router_external=True, provider_network_type='flat', provider_physical_network='external')
    a.network.create_subnet(network_id=ext.id, name='external-subnet', ip_version=4, cidr='203.0.113.0/24', enable_dhcp=False,
                            gateway_ip='203.0.113.1', allocation_pools=[{'start': '203.0.113.10', 'end': '203.0.113.200'}])
    net = t.network.create_network(name='tenant-net')
    sub = t.network.create_subnet(network_id=net.id, name='tenant-subnet', ip_version=4, cidr='10.0.0.0/24', gateway_ip='10.0.0.1')
    r = t.network.create_router(name='tenant-router', external_gateway_info={'network_id': ext.id})
    t.network.add_interface_to_router(r, subnet_id=sub.id)
    with open(f'{DATA}/networks.json', 'w') as f:
        json.dump({'externalNetworkID': ext.id, 'networkID': net.id, 'subnetID': sub.id, 'routerID': r.id}, f)


def compute():
    a, t = conn(), conn('tenant', TENANT_PW, 'tenant')
    a.compute.create_flavor(name='m1.tiny', ram=64, vcpus=1, disk=1)
    fl = t.compute.find_flavor('m1.tiny')
    net = t.network.find_network('tenant-net')
    servers = [t.compute.create_server(
        name=n, flavor_id=fl.id, networks=[{'uuid': net.id}], image_id='',
        block_device_mapping=[{'boot_index': 0, 'source_type': 'blank', 'destination_type': 'local', 'delete_on_termination': True}])
        for n in ('node-1', 'node-2')]
    servers = [t.compute.wait_for_server(s, wait=60, interval=1) for s in servers]
    with open(f'{DATA}/servers.json', 'w') as f:
        json.dump({s.name: s.id for s in servers}, f)


{'identity': identity, 'network': network, 'compute': compute}[sys.argv[1]]()
