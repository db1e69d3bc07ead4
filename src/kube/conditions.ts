/** Conditions of a status (metav1.Condition), as values. */

export type ConditionStatus = "True" | "False" | "Unknown";

export interface Condition {
  type: string;
  status: ConditionStatus;
  /** CamelCase, never empty. */
  reason: string;
  message: string;
  /** RFC 3339 to the second. */
  lastTransitionTime: string;
  /** The `metadata.generation` that this was seen at. */
  observedGeneration?: number;
}

/** The limit of the API's own schema for conditions. */
const MAX_MESSAGE = 32_768;

/**
 * `list` with `condition` in it: at its place when there is one of the type, else at the end. `lastTransitionTime` is
 * that of the old one unless the status changed; then, and for a new one, it is `now`. The list itself stays as it is.
 */
export function setCondition(
  list: readonly Condition[],
  condition: Omit<Condition, "lastTransitionTime">,
  now: Date,
): Condition[] {
  const old = findCondition(list, condition.type);
  const next: Condition = {
    type: condition.type,
    status: condition.status,
    reason: condition.reason,
    message: condition.message.slice(0, MAX_MESSAGE),
    lastTransitionTime: old && old.status === condition.status ? old.lastTransitionTime : formatTime(now),
    ...condition.observedGeneration === undefined ? {} : { observedGeneration: condition.observedGeneration },
  };
  return old ? list.map((each) => each === old ? next : each) : [...list, next];
}

/** The condition of a type, if the list has one. */
export function findCondition(list: readonly Condition[] | undefined, type: string): Condition | undefined {
  return list?.find((each) => each.type === type);
}

/** Whether the condition of a type is there and True. */
export function isTrue(list: readonly Condition[] | undefined, type: string): boolean {
  return findCondition(list, type)?.status === "True";
}

/** metav1.Time: RFC 3339 in UTC to the second. */
export function formatTime(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, "Z");
}

/** metav1.MicroTime: RFC 3339 in UTC with six digits. */
export function formatMicroTime(date: Date): string {
  return date.toISOString().replace(/\.(\d+)Z$/, (_, ms: string) => `.${ms.padEnd(6, "0")}Z`);
}
