// The operator's own pod: whom it is, whether it leads, and its end.
import type { Deployment } from "kubernetes-types/apps/v1";
import type { Pod } from "kubernetes-types/core/v1";
import { until } from "./command.ts";
import { getJson, kubectl, OPERATOR_NAMESPACE } from "./operator.ts";

/** Who holds the operator's Lease: `POD_UUID`, or "" when nobody does. */
export async function leaseHolder(): Promise<string> {
  const { spec } = await getJson<{ spec?: { holderIdentity?: string } }>([
    "-n",
    OPERATOR_NAMESPACE,
    "lease",
    "ipsec-operator",
  ]);
  return spec?.holderIdentity ?? "";
}

/** The operator's pods that are not about to end. */
async function operatorPods(): Promise<Pod[]> {
  const { items } = await getJson<{ items: Pod[] }>([
    "-n",
    OPERATOR_NAMESPACE,
    "pod",
    "-l",
    "app.kubernetes.io/name=ipsec-operator",
  ]);
  return items.filter(({ metadata }) => !metadata?.deletionTimestamp);
}

/** The one pod of the operator, as soon as its container runs. */
export async function operatorPod(): Promise<Pod> {
  return await until("the operator has one running pod", async () => {
    const pods = await operatorPods();
    return pods.length === 1 && pods[0]?.status?.containerStatuses?.[0]?.state?.running ? pods[0] : undefined;
  }, { timeoutMs: 60_000, intervalMs: 250 });
}

/** Waits until another than `before` leads (default: anybody), and returns its identity. */
export async function newLeader(before = ""): Promise<string> {
  return await until("another leader is at work", async () => {
    const holder = await leaseHolder();
    return holder !== before ? holder : undefined;
  }, { timeoutMs: 60_000, intervalMs: 250 });
}

/** Scales the operator; to 0 it returns at once, to 1 when it leads. */
export async function scaleOperator(replicas: 0 | 1): Promise<void> {
  const { items } = await getJson<{ items: Deployment[] }>([
    "-n",
    OPERATOR_NAMESPACE,
    "deployment",
    "-l",
    "app.kubernetes.io/name=ipsec-operator",
  ]);
  const name = items[0]?.metadata?.name ?? "";
  await kubectl(["-n", OPERATOR_NAMESPACE, "scale", "deployment", name, `--replicas=${replicas}`]);
  if (replicas === 0) return;
  const pod = await operatorPod();
  await until(
    "the operator leads",
    async () => (await leaseHolder()).startsWith(`${pod.metadata?.name}_`),
    { timeoutMs: 60_000, intervalMs: 250 },
  );
}
