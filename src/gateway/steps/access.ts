// Step 9: what the pod may do and who may reach it. It has no condition: a failure is told by DeploymentReady, whose
// pod could not run without these.
import { NETWORK_POLICIES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SERVICES } from "../../kube/kinds.ts";
import { list, remove } from "../../kube/objects.ts";
import { failedOutcome } from "../failure.ts";
import type { GatewayContext, Step } from "../context.ts";
import { belongsTo } from "../names.ts";
import { applyOwned, labelSelector } from "../owned.ts";
import {
  renderNetworkPolicy,
  renderReverseServices,
  renderRole,
  renderRoleBinding,
  renderServiceAccount,
} from "../render/access.ts";

/** Services of reverse exposures that the spec no longer has. */
async function removeOldServices(
  { gateway, kube, signal }: GatewayContext,
  keep: ReadonlySet<string>,
): Promise<void> {
  const namespace = gateway.metadata.namespace ?? "";
  const { items } = await list(kube, SERVICES, { namespace, labelSelector: labelSelector(gateway), signal });
  for (const service of items) {
    const name = service.metadata?.name ?? "";
    if (keep.has(name) || !belongsTo(gateway, service)) continue;
    await remove(kube, SERVICES, { namespace, name, uid: service.metadata?.uid, signal });
  }
}

export const access: Step = {
  name: "access",
  condition: "DeploymentReady",
  ahead: true,
  async run(context) {
    const { gateway } = context;
    try {
      await applyOwned(context, SERVICE_ACCOUNTS, renderServiceAccount(gateway));
      await applyOwned(context, ROLES, renderRole(gateway));
      await applyOwned(context, ROLE_BINDINGS, renderRoleBinding(gateway));
      await applyOwned(context, NETWORK_POLICIES, renderNetworkPolicy(gateway));
      const services = gateway.spec.mode === "nat" ? renderReverseServices(gateway) : [];
      for (const service of services) await applyOwned(context, SERVICES, service);
      await removeOldServices(context, new Set(services.map((service) => service.metadata?.name ?? "")));
      return { kind: "done" };
    } catch (error) {
      return failedOutcome("DeploymentUnavailable", error, context);
    }
  },
};
