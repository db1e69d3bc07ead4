import assert from "node:assert/strict";
import { reachedOpenStack } from "./cleanup.ts";
import { gateway } from "./gateway_builder.ts";

Deno.test("reachedOpenStack() says no when a gateway was never given a service CIDR", () => {
  assert.equal(reachedOpenStack({ gateway: gateway() }), false);
  const condition = {
    type: "Validated",
    status: "False" as const,
    reason: "CloudCredentialsInvalid",
    message: "no",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  assert.equal(reachedOpenStack({ gateway: gateway({}, { status: { conditions: [condition] } }) }), false);
});

Deno.test("reachedOpenStack() says yes when a service CIDR was given: the next step may have been cut off", () => {
  const status = { serviceCIDR: "100.64.0.0/24" };
  assert.equal(reachedOpenStack({ gateway: gateway({}, { status }) }), true);
});
