// How a step tells of a failure: which object, what is wrong, what to do about it.
import type { Reason } from "../api/ipsec_gateway.ts";
import { KubeError } from "../kube/errors.ts";
import { OpenStackError } from "../openstack/errors.ts";
import { type GatewayContext, messageOf, type Outcome } from "./context.ts";

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/exceeded quota|status unknown for quota/, "raise that ResourceQuota or delete what is unused"],
  [
    /ValidatingAdmissionPolicy|admission webhook/,
    "meet that admission rule, or have this namespace left out of it",
  ],
  [/PodSecurity/, "a gateway needs a namespace whose Pod Security level is privileged"],
];

/** `text`, with what to do about it behind; unchanged when it is nothing that has to be explained. */
export function advised(text: string): string {
  const advice = ADVICE.find(([pattern]) => pattern.test(text))?.[1];
  return advice === undefined ? text : `${text}; ${advice}`;
}

/** A failed step is tried again after about this time, in milliseconds; a fifth more at most. */
const RETRY_MS = 15_000;

function text(error: unknown): string {
  if (error instanceof KubeError && (error.code === 0 || error.code >= 500)) {
    return `${error.message}; it is tried again`;
  }
  return error instanceof OpenStackError ? error.message : advised(messageOf(error));
}

/** The outcome of a step that failed on an error, unless the work was given up. */
export function failedOutcome(
  reason: Reason,
  error: unknown,
  { signal }: Pick<GatewayContext, "signal">,
): Outcome {
  signal.throwIfAborted();
  const retryMs = error instanceof OpenStackError ? Math.max(RETRY_MS, error.retryAfterMs ?? 0) : RETRY_MS;
  return { kind: "failed", reason, message: text(error), retryMs };
}
