// Which node a gateway runs on. It stays where it is as long as that node may keep it.
import type { Node } from "../kube/kinds.ts";
import type { IPsecGatewaySpec } from "../api/ipsec_gateway.ts";

/** Whether the node's Ready condition is True. */
export function isReady(node: Node): boolean {
  return node.status?.conditions?.some((condition) =>
    condition.type === "Ready" && condition.status === "True"
  ) ?? false;
}

/** Since when the node's Ready condition is not True, in epoch milliseconds; undefined while it is True. */
export function notReadySince(node: Node): number | undefined {
  const ready = node.status?.conditions?.find((condition) => condition.type === "Ready");
  if (ready?.status === "True") return undefined;
  return ready?.lastTransitionTime ? Date.parse(ready.lastTransitionTime) : 0;
}

type Spec = Pick<IPsecGatewaySpec, "nodeSelector" | "tolerations">;

function tolerated(node: Node, tolerations: Spec["tolerations"] = []): boolean {
  return (node.spec?.taints ?? []).filter((taint) => taint.effect !== "PreferNoSchedule").every((taint) =>
    tolerations.some((toleration) =>
      (toleration.effect === undefined || toleration.effect === taint.effect) &&
      (toleration.key === undefined || toleration.key === taint.key) &&
      (toleration.operator === "Exists" || (toleration.value ?? "") === (taint.value ?? ""))
    )
  );
}

/** Whether the gateway's pod may be placed on the node at all, Ready or not. */
export function admits(node: Node, spec: Spec): boolean {
  const labels = node.metadata?.labels ?? {};
  return node.spec?.unschedulable !== true && tolerated(node, spec.tolerations) &&
    Object.entries(spec.nodeSelector ?? {}).every(([key, value]) => labels[key] === value);
}

/**
 * The node for a gateway: the current one while it is there, fits the selector and is not NotReady for longer than the
 * grace period; else the Ready node with the fewest gateways, by name on a tie. A cordoned or tainted node keeps the pod
 * that it has, but gets none anew: after a drain the gateway goes elsewhere.
 */
export function pickNode(nodes: readonly Node[], spec: Spec, options: {
  readonly current: string | undefined;
  /** Whether a pod of the gateway is on the current node. */
  readonly running: boolean;
  /** Gateways on each node. */
  readonly load: ReadonlyMap<string, number>;
  readonly graceMs: number;
  readonly now: number;
}): { readonly node?: Node; readonly why?: string } {
  const current = nodes.find((node) => node.metadata?.name === options.current);
  if (current) {
    const since = notReadySince(current);
    const selected = Object.entries(spec.nodeSelector ?? {}).every(([key, value]) =>
      current.metadata?.labels?.[key] === value
    );
    const keeps = selected && (options.running || admits(current, spec));
    if (keeps && (since === undefined || options.now - since < options.graceMs)) return { node: current };
  }
  const fitting = nodes.filter((node) => isReady(node) && admits(node, spec) && node !== current);
  const loadOf = (node: Node) => options.load.get(node.metadata?.name ?? "") ?? 0;
  const [best] = fitting.sort((a, b) =>
    loadOf(a) - loadOf(b) || ((a.metadata?.name ?? "") < (b.metadata?.name ?? "") ? -1 : 1)
  );
  if (best) return { node: best };
  const ready = nodes.filter(isReady).length;
  const selector = Object.entries(spec.nodeSelector ?? {}).map(([key, value]) => `${key}=${value}`).join(",");
  return {
    why: `of ${nodes.length} nodes ${ready} are Ready, and none of those is schedulable${
      selector ? `, has the labels ${selector}` : ""
    } and has only tolerated taints: add or repair a node, or change spec.nodeSelector or spec.tolerations`,
  };
}
