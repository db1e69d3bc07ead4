// What the OpenStack steps share: whose the resources are, and which network they live in.
import type { IPsecGateway } from "../api/ipsec_gateway.ts";
import type { OpenStack } from "../openstack/contract.ts";
import type { Owner } from "../openstack/ensure/owner.ts";
import type { GatewayContext } from "./context.ts";
import { openstackDescription, openstackName, ownerTag } from "./names.ts";

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
