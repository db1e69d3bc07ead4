// Step 7, mode routed: the router sends the partners' subnets to the port, and the port may carry their addresses.
import type { IPsecGateway } from "../../api/ipsec_gateway.ts";
import { ensureAddressPairs } from "../../openstack/ensure/port.ts";
import { ensureRoutes } from "../../openstack/ensure/routes.ts";
import { OpenStackError } from "../../openstack/errors.ts";
import { messageOf, type Outcome, type Step } from "../context.ts";
import { failedOutcome } from "../failure.ts";
import { cloudOf, ownerOf, placeOf } from "../openstack_owner.ts";

/** Limits of the cloud, by the type of the error, and what to do when one is reached. */
const LIMITS: ReadonlyMap<string, string> = new Map([
  [
    "AllowedAddressPairExhausted",
    "name fewer remote subnets, or have max_allowed_address_pair raised in Neutron",
  ],
  [
    "RoutesExhausted",
    "remove routes that nobody needs from the router, or have max_routes raised in Neutron",
  ],
]);

/** The partners' subnets, sorted, each once. */
export function remoteSubnets(gateway: IPsecGateway): string[] {
  const all = gateway.spec.tunnels.flatMap((tunnel) =>
    tunnel.remoteSubnets ?? tunnel.children?.flatMap((child) => child.remoteSubnets) ?? []
  );
  return [...new Set(all)].sort();
}

const NOT_REQUIRED: Outcome = { kind: "done", reason: "NotRequired", message: "mode nat needs no routes" };

export const routing: Step = {
  name: "routing",
  condition: "RoutingReady",
  async run(context) {
    const { gateway, facts, signal } = context;
    const { networkID, subnetID } = placeOf(context);
    const routed = gateway.spec.mode === "routed";
    const before = gateway.status?.conditions?.find((condition) => condition.type === "RoutingReady");
    const clean = before?.status === "True" && before.reason === "NotRequired" &&
      before.observedGeneration === gateway.metadata.generation;
    // Whether an earlier spec left something on the router is asked once for each spec, until the answer is no.
    if (!routed && (clean || networkID === undefined)) return NOT_REQUIRED;
    const destinations = routed ? remoteSubnets(gateway) : [];
    try {
      const cloud = cloudOf(context);
      const owner = ownerOf(gateway);
      const port = facts.port;
      await ensureAddressPairs(cloud, owner, { portID: port?.id ?? "", pairs: destinations, signal });
      await ensureRoutes(cloud, owner, {
        networkID: networkID ?? "",
        ...(subnetID === undefined ? {} : { subnetID }),
        nexthop: port?.fixedIP ?? "",
        destinations,
        signal,
      });
      return routed
        ? {
          kind: "done",
          reason: "Routed",
          message: `the router sends ${destinations.join(", ")} to the port`,
        }
        : NOT_REQUIRED;
    } catch (error) {
      signal.throwIfAborted();
      const todo = error instanceof OpenStackError ? LIMITS.get(error.type) : undefined;
      if (todo === undefined) return failedOutcome("EnsureRoutingFailed", error, context);
      return {
        kind: "failed",
        reason: "LimitReached",
        message: `${messageOf(error)}; ${todo}`,
        retryMs: 60_000,
      };
    }
  },
};
