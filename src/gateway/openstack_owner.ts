// What the OpenStack steps share: whose the resources are, which network they live in, and how a failure is told.
import type { IPsecGateway, Reason } from "../api/ipsec_gateway.ts";
import type { OpenStack } from "../openstack/contract.ts";
import type { Owner } from "../openstack/ensure/owner.ts";
import { OpenStackError } from "../openstack/errors.ts";
import { type GatewayContext, messageOf, type Outcome } from "./context.ts";
import { openstackDescription, openstackName, ownerTag } from "./names.ts";

/** A failed call is tried again after about this time, in milliseconds; jitter is the queue's. */
const RETRY_MS = 15_000;

export function ownerOf(gateway: IPsecGateway): Owner {
  return { tag: ownerTag(gateway), name: openstackName(gateway), description: openstackDescription(gateway) };
}

/** The cloud that step 1 has opened. */
export function cloudOf({ facts }: Pick<GatewayContext, "facts">): OpenStack {
  if (!facts.cloud) throw new TypeError("Cannot reach OpenStack: the step that opens the cloud has not run");
  return facts.cloud;
}

/** UUIDs of the gateway's place in OpenStack: what the spec says, else what the operator was installed with. */
export function placeOf({ gateway, options }: Pick<GatewayContext, "gateway" | "options">): {
  readonly networkID?: string;
  readonly subnetID?: string;
  readonly externalNetworkID?: string;
} {
  const spec = gateway.spec.openstack ?? {};
  const defaults = options.openstack;
  const networkID = spec.networkID ?? defaults.networkID;
  // The default subnet belongs to the default network.
  const subnetID = spec.subnetID ?? (networkID === defaults.networkID ? defaults.subnetID : undefined);
  const externalNetworkID = spec.externalNetworkID ?? defaults.externalNetworkID;
  return {
    ...(networkID === undefined ? {} : { networkID }),
    ...(subnetID === undefined ? {} : { subnetID }),
    ...(externalNetworkID === undefined ? {} : { externalNetworkID }),
  };
}

/** The outcome of a step whose call to OpenStack failed. */
export function failedOutcome(
  reason: Reason,
  error: unknown,
  { signal }: Pick<GatewayContext, "signal">,
): Outcome {
  signal.throwIfAborted();
  const retryMs = error instanceof OpenStackError ? Math.max(RETRY_MS, error.retryAfterMs ?? 0) : RETRY_MS;
  return { kind: "failed", reason, message: messageOf(error), retryMs };
}
