import assert from "node:assert/strict";
import { KubeError } from "../kube/errors.ts";
import { advised, failedOutcome } from "./failure.ts";

const REFUSALS: readonly (readonly [string, RegExp])[] = [
  ['pods "gw-1" is forbidden: exceeded quota: none, requested: pods=1', /; raise that ResourceQuota/],
  [
    "deployments.apps \"gw\" is forbidden: ValidatingAdmissionPolicy 'no' with binding 'no' denied request",
    /; meet that/,
  ],
  ['admission webhook "policy.example" denied the request: no', /; meet that admission rule/],
  [
    'pods "gw" is forbidden: violates PodSecurity "baseline:latest": non-default capabilities',
    /level is privileged$/,
  ],
];

Deno.test("advised() says what to do about a refusal when its words do not", () => {
  for (const [text, advice] of REFUSALS) {
    assert.ok(advised(text).startsWith(text));
    assert.match(advised(text), advice);
  }
});

Deno.test("advised() leaves a text alone when it explains itself", () => {
  assert.equal(advised("Service t/web does not exist: create it"), "Service t/web does not exist: create it");
});

Deno.test("failedOutcome() says that an outage of the API server is waited out", () => {
  const error = new KubeError('Cannot apply ConfigMap "t/gw": 503 ServiceUnavailable', {
    code: 503,
    reason: "ServiceUnavailable",
  });
  const outcome = failedOutcome("RenderFailed", error, { signal: new AbortController().signal });
  assert.ok(outcome.kind === "failed" && outcome.message.endsWith("; it is tried again"));
});
