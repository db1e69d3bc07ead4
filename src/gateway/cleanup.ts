// What is done when a gateway is deleted, in this order: pod, floating IP, routes, port, security group. Each resource
// is found by its tag, so that it can be done again after any interruption, and nothing of others is touched.
import { CLEANUP_FINALIZER, GATEWAYS, GROUP, nameOf } from "../api/ipsec_gateway.ts";
import { isConflict } from "../kube/errors.ts";
import { DEPLOYMENTS, PODS } from "../kube/kinds.ts";
import { get, list, mergePatch, remove } from "../kube/objects.ts";
import type { OpenStack } from "../openstack/contract.ts";
import { detachPort } from "../openstack/ensure/attachment.ts";
import { releaseFloatingIP } from "../openstack/ensure/floating_ip_release.ts";
import { deletePort, findPorts, type FoundPort } from "../openstack/ensure/port.ts";
import { ensureRoutes } from "../openstack/ensure/routes.ts";
import { deleteSecurityGroup } from "../openstack/ensure/security_group.ts";
import { OpenStackError } from "../openstack/errors.ts";
import { CredentialsError } from "./clouds.ts";
import { releaseCloudSecret } from "./cloud_guard.ts";
import type { GatewayContext } from "./context.ts";
import { belongsTo, objectNames, pinnedTag } from "./names.ts";
import { notReadySince } from "./nodes.ts";
import { labelSelector } from "./owned.ts";
import { ownerOf, placeOf } from "./openstack_owner.ts";

export type Cleaned = { readonly kind: "gone" } | {
  readonly kind: "waiting";
  readonly for: string;
  readonly pollMs: number;
};

const POLL_MS = 2_000;

/** Deletes the Deployment; says what is left of its pods. Pods on a node that is lost end only after the fence. */
async function stopPods(
  { gateway, kube, nodes, now, options, signal }: GatewayContext,
): Promise<{ living: string[]; lost: string[] }> {
  const namespace = gateway.metadata.namespace ?? "";
  const name = objectNames(gateway.metadata.name ?? "").deployment;
  const live = await get(kube, DEPLOYMENTS, { namespace, name, signal });
  if (live && belongsTo(gateway, live) && !live.metadata?.deletionTimestamp) {
    await remove(kube, DEPLOYMENTS, { namespace, name, uid: live.metadata?.uid, signal });
  }
  const { items } = await list(kube, PODS, { namespace, labelSelector: labelSelector(gateway), signal });
  const living: string[] = [];
  const lost: string[] = [];
  for (const pod of items) {
    const node = nodes().find((one) => one.metadata?.name === pod.spec?.nodeName);
    const since = node && notReadySince(node);
    const nodeIsLost = !node || (since !== undefined && now().getTime() - since >= options.nodeGraceMs);
    (pod.spec?.nodeName && nodeIsLost ? lost : living).push(pod.metadata?.name ?? "");
  }
  return { living, lost };
}

/**
 * Whether there can be anything of the gateway in OpenStack: its service CIDR stands in the status before the first
 * thing is made there.
 */
export function reachedOpenStack({ gateway }: Pick<GatewayContext, "gateway">): boolean {
  const { serviceCIDR, securityGroupID, port, floatingIP, conditions } = gateway.status ?? {};
  return Boolean(serviceCIDR || securityGroupID || port || floatingIP) ||
    (conditions ?? []).some((condition) => condition.type === "PortReady");
}

/** Detaches the gateway's ports; says what is waited for. */
async function detachPorts(
  { gateway, signal }: GatewayContext,
  cloud: OpenStack,
  ports: readonly FoundPort[],
): Promise<string | undefined> {
  for (const port of ports) {
    const detached = await detachPort(cloud, ownerOf(gateway), { portID: port.id, signal });
    if (detached.state === "waiting") return detached.why;
  }
  return undefined;
}

async function cleanOpenStack(
  context: GatewayContext,
  cloud: OpenStack,
  podsLost: boolean,
): Promise<Cleaned> {
  const { gateway, signal } = context;
  const owner = ownerOf(gateway);
  const ports = await findPorts(cloud, owner, { signal });
  // What still runs on a lost node must not go on by the router's own address once the floating IP is off.
  const first = podsLost ? await detachPorts(context, cloud, ports) : undefined;
  if (first !== undefined) return { kind: "waiting", for: first, pollMs: POLL_MS };
  const { left } = await releaseFloatingIP(cloud, owner, { pinnedTag: pinnedTag(gateway), signal });
  for (const line of left) context.log.warn(line);
  const { networkID, subnetID } = placeOf(context);
  const known = gateway.status?.port?.fixedIP;
  const nexthops = new Set([
    ...ports.flatMap((port) => port.fixedIPs),
    ...(known === undefined ? [] : [known]),
  ]);
  for (const nexthop of nexthops) {
    if (networkID === undefined) break;
    const place = { networkID, ...(subnetID === undefined ? {} : { subnetID }) };
    await ensureRoutes(cloud, owner, { ...place, nexthop, destinations: [], signal });
  }
  const why = await detachPorts(context, cloud, ports);
  if (why !== undefined) return { kind: "waiting", for: why, pollMs: POLL_MS };
  await deletePort(cloud, owner, { signal });
  await deleteSecurityGroup(cloud, owner, { signal });
  return { kind: "gone" };
}

/**
 * Set when nothing is left in the cloud, before the guard leaves the cloud Secret: should we be killed between that and
 * the end, the Secret is gone, and whoever goes on can't look any more.
 */
const CLEANED_ANNOTATION = `${GROUP}/cleaned`;

async function markCleaned({ gateway, kube, signal }: GatewayContext): Promise<void> {
  const { namespace, name = "", uid } = gateway.metadata;
  if (!gateway.spec.openstack?.cloudSecretRef || wasCleaned({ gateway })) return;
  const patch = { metadata: { uid, annotations: { [CLEANED_ANNOTATION]: uid } } };
  await mergePatch(kube, GATEWAYS, { namespace, name, patch, signal });
}

/** Whether an earlier round got so far. The uid tells it from an annotation that a copied manifest brought along. */
function wasCleaned({ gateway }: Pick<GatewayContext, "gateway">): boolean {
  return gateway.metadata.annotations?.[CLEANED_ANNOTATION] === gateway.metadata.uid;
}

async function removeFinalizer({ gateway, kube, signal }: GatewayContext): Promise<void> {
  const namespace = gateway.metadata.namespace ?? "";
  const name = gateway.metadata.name ?? "";
  for (;;) {
    const live = await get(kube, GATEWAYS, { namespace, name, signal });
    const finalizers = live?.metadata.finalizers ?? [];
    if (live?.metadata.uid !== gateway.metadata.uid || !finalizers.includes(CLEANUP_FINALIZER)) return;
    try {
      const metadata = {
        finalizers: finalizers.filter((one) => one !== CLEANUP_FINALIZER),
        resourceVersion: live?.metadata.resourceVersion,
      };
      await mergePatch(kube, GATEWAYS, { namespace, name, patch: { metadata }, signal });
      return;
    } catch (error) {
      if (!isConflict(error)) throw error;
      signal.throwIfAborted();
    }
  }
}

/** One round of the cleanup; call it again until it answers "gone". */
export async function cleanup(context: GatewayContext): Promise<Cleaned> {
  const { gateway, kube, signal } = context;
  const pods = await stopPods(context);
  if (pods.living.length) {
    return {
      kind: "waiting",
      for: `pods ${pods.living.join(", ")} of IPsecGateway ${nameOf(gateway)} to end`,
      pollMs: POLL_MS,
    };
  }
  try {
    const cloud = await context.clouds.for(gateway, { signal });
    const cleaned = await cleanOpenStack(context, cloud, pods.lost.length > 0);
    if (cleaned.kind === "waiting") return cleaned;
  } catch (error) {
    // A gateway that never had a cloud it could use has left nothing behind, and must not be held for ever.
    const closed = error instanceof CredentialsError || error instanceof OpenStackError;
    if (!closed || (reachedOpenStack(context) && !wasCleaned(context))) throw error;
  }
  // The port has left the lost node: what still runs there can reach nobody.
  for (const name of pods.lost) {
    await remove(kube, PODS, { namespace: gateway.metadata.namespace, name, gracePeriodSeconds: 0, signal });
  }
  await markCleaned(context);
  await context.oneAtATime(async () => {
    await releaseCloudSecret(context);
    await removeFinalizer(context);
  });
  return { kind: "gone" };
}
