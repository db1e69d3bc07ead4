// One reconcile of one gateway: the steps in order, then one status, written only when it differs.
import {
  CLEANUP_FINALIZER,
  type ConditionType,
  CONTROLLER_MANAGER,
  GATEWAYS,
  type IPsecGateway,
} from "../api/ipsec_gateway.ts";
import type { Condition } from "../kube/conditions.ts";
import { isNotFound } from "../kube/errors.ts";
import { apply, get, mergePatch } from "../kube/objects.ts";
import type { Facts, GatewayContext, GatewayDeps, Step } from "./context.ts";
import { scaleToZero } from "./scale.ts";
import { floatingIPIsElsewhere } from "./steps/floating_ip.ts";
import { controllerStatus, differs, statusObject, type StepResult, summarise } from "./status.ts";

/** A condition that has changed its status or reason. */
export interface Transition {
  readonly type: ConditionType;
  readonly condition: Condition;
}

export interface Reconciled {
  readonly requeueAfterMs: number;
  readonly transitions: readonly Transition[];
}

/**
 * Everything that is done is looked at again after this time, in milliseconds, and a fifth more at most: that a floating
 * IP was moved is to be noticed within a minute.
 */
const RESYNC_MS = 48_000;

/** A reconcile that takes longer than this tells how far it is, in milliseconds. */
const PROGRESS_MS = 2_000;

/** Writes the controller's part of the status, if it differs. A gateway that is gone meanwhile is none to write to. */
export async function writeStatus(
  deps: Pick<GatewayDeps, "kube" | "now">,
  gateway: IPsecGateway,
  options: { facts: Facts; conditions: readonly Condition[]; signal: AbortSignal },
): Promise<void> {
  const status = controllerStatus(gateway, options.facts, options.conditions, deps.now());
  if (!differs(gateway, status)) return;
  try {
    await apply(deps.kube, GATEWAYS, {
      object: statusObject(gateway, status),
      fieldManager: CONTROLLER_MANAGER,
      force: true,
      subresource: "status",
      signal: options.signal,
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** The finalizer comes before anything is made that it has to clean up. */
export async function ensureFinalizer(
  { kube }: Pick<GatewayDeps, "kube">,
  gateway: IPsecGateway,
  signal: AbortSignal,
): Promise<IPsecGateway> {
  const finalizers = gateway.metadata.finalizers ?? [];
  if (finalizers.includes(CLEANUP_FINALIZER)) return gateway;
  return await mergePatch(kube, GATEWAYS, {
    namespace: gateway.metadata.namespace,
    name: gateway.metadata.name ?? "",
    patch: {
      metadata: {
        finalizers: [...finalizers, CLEANUP_FINALIZER],
        resourceVersion: gateway.metadata.resourceVersion,
      },
    },
    signal,
  });
}

/**
 * Runs the steps until one is not done; when that is the wait for a pinned address, the ones that render go on.
 * `told` is awaited after each step.
 */
export async function runSteps(
  context: GatewayContext,
  steps: readonly Step[],
  told: (result: StepResult) => Promise<void>,
): Promise<void> {
  let stopped = false;
  for (const step of steps) {
    const ahead = stopped && context.facts.awaitingFloatingIP && context.options.renderAhead && step.ahead;
    if (stopped && !ahead) continue;
    const outcome = await step.run(context);
    await told({ step, outcome });
    if (outcome.kind === "done") continue;
    // A second step that is not done ends it for good.
    if (stopped) break;
    stopped = true;
  }
}

/** When to look again: as the first step that is not done says, with up to a fifth more so that gateways spread. */
function requeueAfter(results: readonly StepResult[], random: () => number): number {
  const open = results.find(({ outcome }) => outcome.kind !== "done")?.outcome;
  const base = open?.kind === "failed"
    ? open.retryMs ?? RESYNC_MS
    : open?.kind === "waiting"
    ? open.pollMs ?? RESYNC_MS
    : RESYNC_MS;
  return base * (1 + random() / 5);
}

/**
 * Looks at the floating IP also when a step before its own has failed: whatever is wrong with the spec, a gateway whose
 * address has moved must not go on.
 */
async function watchFloatingIP(context: GatewayContext, results: readonly StepResult[]): Promise<void> {
  const { gateway, facts } = context;
  if (results.some(({ step }) => step.condition === "FIPAttached") || !gateway.status?.floatingIP) return;
  if (await floatingIPIsElsewhere(context)) {
    facts.floatingIPLost = true;
    await scaleToZero(context);
  }
}

function transitionsOf(before: readonly Condition[], after: readonly Condition[]): Transition[] {
  return after.filter((condition) => {
    const old = before.find((one) => one.type === condition.type);
    return old?.status !== condition.status || old.reason !== condition.reason;
  }).map((condition) => ({ type: condition.type as ConditionType, condition }));
}

/** A whole reconcile of a gateway that is not being deleted. */
export async function reconcileGateway(
  deps: GatewayDeps,
  gateway: IPsecGateway,
  options: { steps: readonly Step[]; random: () => number; signal: AbortSignal },
): Promise<Reconciled> {
  const { signal } = options;
  const current = await ensureFinalizer(deps, gateway, signal);
  const before = (current.status?.conditions ?? []) as readonly Condition[];
  const facts: Facts = {};
  const context: GatewayContext = {
    ...deps,
    gateway: current,
    facts,
    signal,
    saveFacts: () => writeStatus(deps, current, { facts, conditions: before, signal }),
  };
  const results: StepResult[] = [];
  const generation = current.metadata.generation;
  let conditions = before;
  const startedAt = deps.now().getTime();
  let toldAt = startedAt;
  const slow = () => deps.now().getTime() - toldAt >= PROGRESS_MS;
  const tell = async () => {
    conditions = summarise({ conditions, generation }, results, options.steps, deps.now());
    // The agent may have reported meanwhile, and the summary is of now. The spec is the one that was reconciled: who
    // has edited the object in between must not read that it was observed.
    const { namespace, name = "", uid } = current.metadata;
    const live = slow() || toldAt !== startedAt
      ? await get(deps.kube, GATEWAYS, { namespace, name, signal })
      : undefined;
    const base = live?.status && live.metadata.uid === uid ? { ...current, status: live.status } : current;
    await writeStatus(deps, base, { facts, conditions, signal });
    toldAt = deps.now().getTime();
  };
  try {
    await runSteps(context, options.steps, async (result) => {
      results.push(result);
      // A cloud that takes its time: what is so already is told meanwhile.
      if (slow()) await tell();
    });
    await watchFloatingIP(context, results);
  } finally {
    // Also after a fault that no step expected: what was reached before it is so.
    await tell();
  }
  return {
    requeueAfterMs: requeueAfter(results, options.random),
    transitions: transitionsOf(before, conditions),
  };
}
