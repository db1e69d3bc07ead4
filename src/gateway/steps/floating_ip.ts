// Step 6: the floating IP. A pinned one that sits on another port is waited for, never taken.
import { nameOf } from "../../api/ipsec_gateway.ts";
import { ensureFloatingIP } from "../../openstack/ensure/floating_ip.ts";
import { OpenStackError } from "../../openstack/errors.ts";
import { getFloatingIP } from "../../openstack/neutron.ts";
import type { GatewayContext, Step } from "../context.ts";
import { pinnedTag } from "../names.ts";
import { failedOutcome } from "../failure.ts";
import { cloudOf, ownerOf, placeOf } from "../openstack_owner.ts";
import { scaleToZero } from "../scale.ts";

/** How often a pinned address that is elsewhere is looked at, in milliseconds. */
const ELSEWHERE_POLL_MS = 15_000;

export const floatingIP: Step = {
  name: "floating IP",
  condition: "FIPAttached",
  async run(context) {
    const { gateway, facts, signal } = context;
    const pinnedAddress = gateway.spec.endpoint?.floatingIP;
    const { externalNetworkID } = placeOf(context);
    if (pinnedAddress === undefined && externalNetworkID === undefined) {
      return {
        kind: "failed",
        reason: "EnsureFIPFailed",
        message: `Cannot make a floating IP for IPsecGateway ${
          nameOf(gateway)
        }: no external network is named; set spec.openstack.externalNetworkID or the operator's --external-network-id`,
        retryMs: 60_000,
      };
    }
    try {
      const result = await ensureFloatingIP(cloudOf(context), ownerOf(gateway), {
        portID: facts.port?.id ?? "",
        pinnedTag: pinnedTag(gateway),
        ...(pinnedAddress === undefined ? {} : { pinnedAddress }),
        ...(externalNetworkID === undefined ? {} : { externalNetworkID }),
        signal,
      });
      if (result.kind === "attached") {
        facts.floatingIP = { id: result.id, address: result.address, pinned: result.pinned };
        return {
          kind: "done",
          reason: "Associated",
          message: `floating IP ${result.address} is associated with the port`,
        };
      }
      const foreign = result.kind !== "notFound" && result.portID !== "" && result.portID !== facts.port?.id;
      const had = result.kind !== "notFound" && gateway.status?.floatingIP?.id === result.id;
      if (foreign || had || result.kind === "notFound") {
        facts.floatingIPLost = true;
        facts.awaitingFloatingIP = result.kind === "elsewhere" && pinnedAddress !== undefined;
        // A gateway whose address has moved would go on by the router's own address, and its peer would follow it.
        await scaleToZero(context);
      }
      return { kind: "failed", reason: "EnsureFIPFailed", message: result.why, retryMs: ELSEWHERE_POLL_MS };
    } catch (error) {
      return failedOutcome("EnsureFIPFailed", error, context);
    }
  },
};

/**
 * Whether the address that the status names is seen on a foreign port, or is gone. Asks only, and says no when OpenStack
 * does not answer: nothing is stopped on an error.
 */
export async function floatingIPIsElsewhere(
  { gateway, clouds, signal }: GatewayContext,
): Promise<boolean> {
  const { floatingIP, port } = gateway.status ?? {};
  if (!floatingIP?.id || !port?.id) return false;
  try {
    const seen = await getFloatingIP(await clouds.for(gateway, { signal }), floatingIP.id, { signal });
    return seen.port_id !== "" && seen.port_id !== port.id;
  } catch (error) {
    signal.throwIfAborted();
    // Neutron's own word for it: a proxy, or Keystone, may answer 404 for reasons of theirs.
    return error instanceof OpenStackError && /^floatingip_?notfound$/i.test(error.type);
  }
}
