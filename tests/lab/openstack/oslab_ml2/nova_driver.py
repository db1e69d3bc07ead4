"""Nova's fake virt driver, with a node id, instances and plugged interfaces that outlive a restart of nova-compute."""
from nova.compute import power_state
from nova.virt import fake, node

from oslab_ml2.changed import changed


class OslabDriver(fake.FakeDriver):
    def _known(self, instance):
        if instance.uuid not in self.instances:     # the stock driver keeps them in memory only
            off = instance.power_state == power_state.SHUTDOWN
            self.instances[instance.uuid] = fake.FakeInstance(
                instance.name, power_state.SHUTDOWN if off else power_state.RUNNING, instance.uuid)

    def get_nodenames_by_uuid(self, refresh=False):
        return {node.get_local_node_uuid(): n for n in self.get_available_nodes()}

    def get_available_resource(self, nodename):
        r = super().get_available_resource(nodename)
        if r:
            r['uuid'] = node.get_local_node_uuid()
        return r

    def get_info(self, instance, use_cache=True):
        if instance.host == self._host and instance.vm_state in ('active', 'stopped'):
            self._known(instance)
        return super().get_info(instance, use_cache)

    def power_off(self, instance, timeout=0, retry_interval=0):
        self._known(instance)
        return super().power_off(instance, timeout, retry_interval)

    def power_on(self, context, instance, network_info, *a, **kw):
        self._known(instance)
        return super().power_on(context, instance, network_info, *a, **kw)

    def attach_interface(self, *args, **kwargs):
        super().attach_interface(*args, **kwargs)
        changed()

    def detach_interface(self, context, instance, vif):
        self._interfaces.pop(vif['id'], None)
        changed()
