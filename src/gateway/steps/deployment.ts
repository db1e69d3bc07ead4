// Step 10: the pod. One replica, on the node that has the port; none while the pinned address is still elsewhere.
import { HEARTBEAT_GRACE_MS, type IPsecGateway } from "../../api/ipsec_gateway.ts";
import type { Deployment, Pod } from "../../kube/kinds.ts";
import { DEPLOYMENTS, PODS } from "../../kube/kinds.ts";
import { list, remove } from "../../kube/objects.ts";
import { advised, failedOutcome } from "../failure.ts";
import type { GatewayContext, Step } from "../context.ts";
import { objectNames } from "../names.ts";
import { applyOwned, labelSelector } from "../owned.ts";
import { renderDeployment } from "../render/deployment.ts";

/** What a pod that does not become available waits for, in the kubelet's or scheduler's words. */
export function podTrouble(pods: readonly Pod[]): string | undefined {
  for (const pod of pods) {
    const unscheduled = pod.status?.conditions?.find((condition) =>
      condition.type === "PodScheduled" && condition.status === "False"
    );
    if (unscheduled) {
      return `pod ${pod.metadata?.name} is not scheduled: ${unscheduled.message ?? unscheduled.reason}`;
    }
    for (const container of pod.status?.containerStatuses ?? []) {
      const waiting = container.state?.waiting;
      if (waiting && waiting.reason !== "ContainerCreating" && waiting.reason !== "PodInitializing") {
        return `container ${container.name} of pod ${pod.metadata?.name} waits: ${waiting.reason}${
          waiting.message ? ` (${waiting.message})` : ""
        }`;
      }
    }
    const unready = pod.status?.containerStatuses?.filter((container) =>
      !container.ready
    ).map((container) => container.name) ?? [];
    if (unready.length) {
      return `pod ${pod.metadata?.name}: ${unready.join(", ")} not ready yet`;
    }
  }
  return undefined;
}

/** What stands in the way, as the Deployment itself says it (a quota, an admission webhook). */
function replicaFailure(deployment: Deployment): string | undefined {
  const failure = deployment.status?.conditions?.find((condition) =>
    condition.type === "ReplicaFailure" && condition.status === "True"
  );
  return failure?.message;
}

/** A pod this young may not have been looked at yet, in milliseconds. */
const YOUNG_MS = 30_000;

/**
 * The pod that has lost its NIC, as its own agent says. A port that was detached and attached again is a NIC in the node,
 * not in the pod, which would stay Ready and dead.
 */
export function podWithoutNic(gateway: IPsecGateway, pods: readonly Pod[], now: Date): Pod | undefined {
  const { podName, lastHeartbeatTime, problems } = gateway.status?.agent ?? {};
  const pod = pods.find((one) => one.metadata?.name === podName && !one.metadata?.deletionTimestamp);
  if (!pod || !problems?.some((problem) => problem.startsWith("net1 is missing"))) return undefined;
  const started = Date.parse(pod.status?.startTime ?? "");
  const seen = Date.parse(lastHeartbeatTime ?? "");
  const fresh = now.getTime() - seen < HEARTBEAT_GRACE_MS;
  return fresh && seen - started > YOUNG_MS ? pod : undefined;
}

/** Deletes it; the Deployment makes another, whose sandbox takes the NIC. */
async function replacePodWithoutNic(context: GatewayContext): Promise<string | undefined> {
  const { gateway, kube, signal } = context;
  if (!gateway.status?.agent?.problems?.length) return undefined;
  const namespace = gateway.metadata.namespace ?? "";
  const { items } = await list(kube, PODS, { namespace, labelSelector: labelSelector(gateway), signal });
  const pod = podWithoutNic(gateway, items, context.now());
  if (!pod) return undefined;
  const name = pod.metadata?.name ?? "";
  await remove(kube, PODS, { namespace, name, uid: pod.metadata?.uid, signal });
  return name;
}

async function why(context: GatewayContext, deployment: Deployment): Promise<string> {
  const { gateway, kube, signal } = context;
  const namespace = gateway.metadata.namespace ?? "";
  const failure = replicaFailure(deployment);
  if (failure) return advised(failure);
  const { items } = await list(kube, PODS, { namespace, labelSelector: labelSelector(gateway), signal });
  return podTrouble(items) ?? "the pod is starting";
}

export const deployment: Step = {
  name: "deployment",
  condition: "DeploymentReady",
  ahead: true,
  async run(context) {
    const { gateway, facts, options } = context;
    const awaiting = facts.awaitingFloatingIP === true;
    const name = objectNames(gateway.metadata.name ?? "").deployment;
    const spec = gateway.spec.images;
    try {
      const live = await applyOwned(
        context,
        DEPLOYMENTS,
        renderDeployment({
          gateway,
          attachment: facts.attachment ?? "",
          nodeName: facts.nodeName,
          replicas: awaiting ? 0 : 1,
          images: {
            ...options.images,
            ...(spec?.strongswan === undefined ? {} : { strongswan: spec.strongswan }),
            ...(spec?.statusAgent === undefined ? {} : { statusAgent: spec.statusAgent }),
          },
          agentIntervalSeconds: options.agentIntervalSeconds,
        }),
      );
      if (awaiting) {
        return {
          kind: "waiting",
          reason: "AwaitingFloatingIP",
          message: `Deployment ${name} stays at 0 replicas until the floating IP is on the gateway's port`,
        };
      }
      const replaced = await replacePodWithoutNic(context);
      if (replaced !== undefined) {
        return {
          kind: "waiting",
          reason: "DeploymentUnavailable",
          message: `Pod ${replaced} has lost the port's NIC (net1) and is made anew`,
          pollMs: 5_000,
        };
      }
      const current = live.status?.observedGeneration === live.metadata?.generation;
      if (current && (live.status?.availableReplicas ?? 0) >= 1 && (live.status?.updatedReplicas ?? 0) >= 1) {
        return { kind: "done", reason: "Available", message: `Deployment ${name} is available` };
      }
      return {
        kind: "waiting",
        reason: "DeploymentUnavailable",
        message: `Deployment ${name} is not available: ${await why(context, live)}`,
        pollMs: 15_000,
      };
    } catch (error) {
      return failedOutcome("DeploymentUnavailable", error, context);
    }
  },
};
