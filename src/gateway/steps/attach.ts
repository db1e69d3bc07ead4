// Step 5: the port goes to the server of a Ready node. Detaching is asynchronous in Nova, and it is the fence: the port
// is attached elsewhere only when Neutron says that nobody has it.
import { nameOf } from "../../api/ipsec_gateway.ts";
import { type Pod, PODS } from "../../kube/kinds.ts";
import { list, remove } from "../../kube/objects.ts";
import { attachPort } from "../../openstack/ensure/attachment.ts";
import { resolveServer } from "../../openstack/ensure/server.ts";
import { type GatewayContext, messageOf, type Step } from "../context.ts";
import { pickNode } from "../nodes.ts";
import { failedOutcome } from "../failure.ts";
import { cloudOf, ownerOf } from "../openstack_owner.ts";
import { labelSelector } from "../owned.ts";
import { scaleToZero } from "../scale.ts";

/** A detach that is under way is looked at again after this time, in milliseconds. */
const DETACH_POLL_MS = 2_000;

/** Where the gateways are, this one left out. */
function load({ gateway, gateways }: Pick<GatewayContext, "gateway" | "gateways">): Map<string, number> {
  const counts = new Map<string, number>();
  for (const other of gateways()) {
    const node = other.status?.nodeName;
    if (node && other.metadata.uid !== gateway.metadata.uid) counts.set(node, (counts.get(node) ?? 0) + 1);
  }
  return counts;
}

/** The gateway's pods, wherever they are. */
async function podsOf({ kube, gateway, signal }: GatewayContext): Promise<readonly Pod[]> {
  const { items } = await list(kube, PODS, {
    namespace: gateway.metadata.namespace,
    labelSelector: labelSelector(gateway),
    signal,
  });
  return items;
}

/** Pods on a node that is lost never end by themselves. Only called when the port has left that node. */
async function deleteOldPods(context: GatewayContext, keepNode: string): Promise<void> {
  const { kube, gateway, signal } = context;
  for (const { metadata, spec } of await podsOf(context)) {
    if (!spec?.nodeName || spec.nodeName === keepNode) continue;
    await remove(kube, PODS, {
      namespace: gateway.metadata.namespace,
      name: metadata?.name ?? "",
      uid: metadata?.uid,
      gracePeriodSeconds: 0,
      signal,
    });
  }
}

export const attach: Step = {
  name: "attach",
  condition: "PortAttached",
  async run(context) {
    const { gateway, facts, options, signal } = context;
    const current = gateway.status?.nodeName;
    const pods = current === undefined ? [] : await podsOf(context);
    const { node, why } = pickNode(context.nodes(), gateway.spec, {
      current,
      running: pods.some(({ metadata, spec, status }) =>
        spec?.nodeName === current && !metadata?.deletionTimestamp && status?.phase === "Running"
      ),
      load: load(context),
      graceMs: options.nodeGraceMs,
      now: context.now().getTime(),
    });
    const nodeName = node?.metadata?.name;
    if (!node || nodeName === undefined) {
      // A watch on the nodes ends this wait; the poll is for what a watch may have missed.
      return {
        kind: "waiting",
        reason: "NoReadyNode",
        message: `Cannot place IPsecGateway ${nameOf(gateway)}: ${why}`,
        pollMs: 60_000,
      };
    }
    try {
      const cloud = cloudOf(context);
      const providerID = node.spec?.providerID;
      const server = await resolveServer(cloud, { ...(providerID ? { providerID } : {}), nodeName, signal });
      if (server.kind === "missing") {
        return {
          kind: "failed",
          reason: "ServerNotFound",
          message: `Cannot find the server of node ${nodeName}: ${server.why}`,
          retryMs: 15_000,
        };
      }
      const moves = current !== undefined && current !== nodeName;
      // Before the port leaves its node, so that nothing starts a pod there again.
      if (moves) await scaleToZero(context);
      const result = await attachPort(cloud, ownerOf(gateway), {
        portID: facts.port?.id ?? "",
        serverID: server.id,
        signal,
      });
      if (result.state === "waiting") {
        return { kind: "waiting", reason: "DetachPending", message: result.why, pollMs: DETACH_POLL_MS };
      }
      if (moves) await deleteOldPods(context, nodeName);
      facts.nodeName = nodeName;
      return {
        kind: "done",
        reason: "Attached",
        message: `the port is attached to node ${nodeName} (server ${server.id})`,
      };
    } catch (error) {
      return failedOutcome(
        "AttachFailed",
        error instanceof Error ? error : new Error(messageOf(error)),
        context,
      );
    }
  },
};
