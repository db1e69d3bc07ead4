"""ML2 mechanism driver for a lab without L2/L3 agents.

It binds every port with vif_type ovs at once, ACTIVE as soon as it is bound, and plays the L3 agent's single
visible part: a floating IP turns ACTIVE after it is associated and DOWN after it is let go. Each change of a port, a
security group rule, a floating IP or a router rewrites the file named by OSLAB_CHANGED.
"""
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, registry, resources
from neutron_lib import constants as const
from neutron_lib import context as nctx
from neutron_lib.plugins import constants as plugin_constants, directory
from neutron_lib.plugins.ml2 import api
from oslo_log import log as logging

from oslab_ml2.changed import changed

LOG = logging.getLogger(__name__)


class OslabMechanismDriver(api.MechanismDriver):
    def initialize(self):
        for ev in (events.AFTER_CREATE, events.AFTER_UPDATE):
            registry.subscribe(self._fip, resources.FLOATING_IP, ev)
        for resource in (resources.PORT, resources.SECURITY_GROUP, resources.SECURITY_GROUP_RULE, resources.FLOATING_IP,
                         resources.ROUTER, resources.ROUTER_INTERFACE, resources.ROUTER_GATEWAY, resources.SUBNET):
            for ev in (events.AFTER_CREATE, events.AFTER_UPDATE, events.AFTER_DELETE):
                registry.subscribe(changed, resource, ev)

    def bind_port(self, context):
        for segment in context.segments_to_bind:
            context.set_binding(
                segment[api.ID], portbindings.VIF_TYPE_OVS,
                {portbindings.CAP_PORT_FILTER: True, 'connectivity': 'l2',
                 'bridge_name': 'br-int', 'datapath_type': 'system'},
                status=const.PORT_STATUS_ACTIVE)
            return

    def _fip(self, resource, event, trigger, payload=None):
        try:
            fip = payload.latest_state or {}
            fid = payload.resource_id or fip.get('id')
            l3 = directory.get_plugin(plugin_constants.L3)
            ctx = nctx.get_admin_context()
            cur = l3.get_floatingip(ctx, fid)
            want = const.FLOATINGIP_STATUS_ACTIVE if cur.get('port_id') else const.FLOATINGIP_STATUS_DOWN
            if cur['status'] != want:
                l3.update_floatingip_status(ctx, fid, want)
        except Exception:
            LOG.exception('floating IP status')
