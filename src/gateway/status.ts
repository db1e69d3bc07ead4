// What the controller says of a gateway: conditions from the steps' outcomes, and the tunnels at a glance. Pure.
import {
  API_VERSION,
  type ConditionType,
  GATEWAY_KIND,
  HEARTBEAT_GRACE_MS,
  type IPsecGateway,
  type IPsecGatewayStatus,
} from "../api/ipsec_gateway.ts";
import { CONDITION_TYPES } from "../api/ipsec_gateway.ts";
import { canonical } from "../kube/canonical.ts";
import { type Condition, setCondition } from "../kube/conditions.ts";
import type { Facts, Outcome, Step } from "./context.ts";

/** A step that was run, and what it answered. */
export interface StepResult {
  readonly step: Step;
  readonly outcome: Outcome;
}

/** The part of the status that is the controller's. */
export type ControllerStatus = Omit<IPsecGatewayStatus, "tunnels" | "agent" | "dataPlane">;

/**
 * The conditions after a reconcile. A condition whose steps were all done is True; one whose step was not is False; one
 * that no step of this reconcile decided stays as it was, or absent.
 */
export function summarise(
  before: { readonly conditions: readonly Condition[]; readonly generation: number | undefined },
  results: readonly StepResult[],
  allSteps: readonly Step[],
  now: Date,
): Condition[] {
  let conditions = before.conditions;
  for (const type of CONDITION_TYPES) {
    const decided = conclude(type, results, allSteps);
    if (!decided) continue;
    conditions = setCondition(conditions, {
      type,
      ...decided,
      ...(before.generation === undefined ? {} : { observedGeneration: before.generation }),
    }, now);
  }
  return [...conditions].sort((a, b) => order(a.type) - order(b.type));
}

function order(type: string): number {
  return CONDITION_TYPES.indexOf(type as ConditionType);
}

type Decided = Pick<Condition, "status" | "reason" | "message">;

function conclude(
  type: ConditionType,
  results: readonly StepResult[],
  allSteps: readonly Step[],
): Decided | undefined {
  const own = results.filter(({ step }) => step.condition === type);
  for (const { outcome } of own) {
    if (outcome.kind !== "done") return { status: "False", reason: outcome.reason, message: outcome.message };
  }
  const last = own.at(-1)?.outcome;
  const complete = own.length === allSteps.filter((step) => step.condition === type).length;
  if (!complete || last?.kind !== "done") return undefined;
  return { status: "True", reason: last.reason ?? type, message: last.message ?? "" };
}

/** The tunnels at a glance; `now` tells whether the agent's report still counts. */
export function summary(
  gateway: IPsecGateway,
  conditions: readonly Condition[],
  now: Date,
): NonNullable<IPsecGatewayStatus["summary"]> {
  const tunnels = gateway.spec.tunnels.length;
  const ready = CONDITION_TYPES.every((type) =>
    conditions.some((condition) => condition.type === type && condition.status === "True")
  );
  const heartbeat = gateway.status?.agent?.lastHeartbeatTime;
  const silent = heartbeat === undefined ? ready : now.getTime() - Date.parse(heartbeat) > HEARTBEAT_GRACE_MS;
  // Before there is a pod there is nothing to be in doubt about: no tunnel is up.
  if (silent) {
    return {
      tunnels,
      established: ready || heartbeat !== undefined ? "Unknown" : "0",
      ready: ready ? "Unknown" : "False",
    };
  }
  const states = new Map((gateway.status?.tunnels ?? []).map((tunnel) => [tunnel.name, tunnel.state]));
  const up = (name: string) => states.get(name) === "ESTABLISHED" || states.get(name) === "REKEYING";
  const established = gateway.spec.tunnels.filter((tunnel) => up(tunnel.name)).length;
  const wanted = gateway.spec.tunnels.filter((tunnel) => tunnel.startAction === "start");
  return {
    tunnels,
    established: String(established),
    ready: ready && wanted.every((tunnel) => up(tunnel.name)) ? "True" : "False",
  };
}

/** The controller's status: what the steps found out, and what it was before where they did not get. */
export function controllerStatus(
  gateway: IPsecGateway,
  facts: Facts,
  conditions: readonly Condition[],
  now: Date,
): ControllerStatus {
  const before = gateway.status ?? {};
  const floatingIP = facts.floatingIPLost ? undefined : facts.floatingIP ?? before.floatingIP;
  const status: Record<string, unknown> = {
    observedGeneration: gateway.metadata.generation,
    conditions: [...conditions],
    serviceCIDR: facts.serviceCIDR ?? before.serviceCIDR,
    nodeName: facts.nodeName ?? before.nodeName,
    securityGroupID: facts.securityGroupID ?? before.securityGroupID,
    port: facts.port ?? before.port,
    floatingIP,
    exposures: facts.exposures ?? before.exposures,
    reverseExposures: facts.reverseExposures ?? before.reverseExposures,
    summary: summary(gateway, conditions, now),
  };
  for (const [field, value] of Object.entries(status)) {
    if (value === undefined || (Array.isArray(value) && value.length === 0)) delete status[field];
  }
  return status as ControllerStatus;
}

/** The object that is applied as the status. */
export function statusObject(gateway: IPsecGateway, status: ControllerStatus): IPsecGateway {
  const { name, namespace } = gateway.metadata;
  return {
    apiVersion: API_VERSION,
    kind: GATEWAY_KIND,
    metadata: { ...(name === undefined ? {} : { name }), ...(namespace === undefined ? {} : { namespace }) },
    status,
  } as IPsecGateway;
}

/** Whether applying `status` would change anything. */
export function differs(gateway: IPsecGateway, status: ControllerStatus): boolean {
  const { tunnels: _tunnels, agent: _agent, dataPlane: _dataPlane, ...before } = gateway.status ?? {};
  return canonical(before) !== canonical(status);
}
