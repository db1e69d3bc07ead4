// What a person can do about a refusal of the API server, where its own words do not say.
import { KubeError } from "../kube/errors.ts";
import { messageOf } from "./context.ts";

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

/** The message of a step that failed on an error of the API server or of our own. */
export function advisedMessage(error: unknown): string {
  if (error instanceof KubeError && (error.code === 0 || error.code >= 500)) {
    return `${error.message}; it is tried again`;
  }
  return advised(messageOf(error));
}
