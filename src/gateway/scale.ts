// Stopping a gateway's pod without taking its Deployment away.
import { DEPLOYMENTS } from "../kube/kinds.ts";
import { get, mergePatch } from "../kube/objects.ts";
import type { GatewayContext } from "./context.ts";
import { belongsTo, objectNames } from "./names.ts";

/** Brings the gateway's Deployment, if there is one, to 0 replicas. Only for what was seen, never on an error or a timeout. */
export async function scaleToZero(
  { kube, gateway, signal }: Pick<GatewayContext, "kube" | "gateway" | "signal">,
): Promise<void> {
  const namespace = gateway.metadata.namespace ?? "";
  const name = objectNames(gateway.metadata.name ?? "").deployment;
  const live = await get(kube, DEPLOYMENTS, { namespace, name, signal });
  if (!live || !belongsTo(gateway, live) || live.spec?.replicas === 0) return;
  await mergePatch(kube, DEPLOYMENTS, { namespace, name, patch: { spec: { replicas: 0 } }, signal });
}
