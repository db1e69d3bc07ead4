// Step 4: the Neutron port.
import { nameOf } from "../../api/ipsec_gateway.ts";
import { ensurePort } from "../../openstack/ensure/port.ts";
import { ensureRoutes } from "../../openstack/ensure/routes.ts";
import type { Step } from "../context.ts";
import { failedOutcome } from "../failure.ts";
import { cloudOf, ownerOf, placeOf } from "../openstack_owner.ts";

export const port: Step = {
  name: "port",
  condition: "PortReady",
  async run(context) {
    const { gateway, facts, signal } = context;
    const { networkID, subnetID } = placeOf(context);
    if (networkID === undefined) {
      return {
        kind: "failed",
        reason: "EnsurePortFailed",
        message: `Cannot make a port for IPsecGateway ${
          nameOf(gateway)
        }: no network is named; set spec.openstack.networkID or the operator's --network-id`,
        retryMs: 60_000,
      };
    }
    try {
      const made = await ensurePort(cloudOf(context), ownerOf(gateway), {
        networkID,
        ...(subnetID === undefined ? {} : { subnetID }),
        securityGroupID: facts.securityGroupID ?? "",
        signal,
      });
      if (made.gatewayIP === undefined) {
        return {
          kind: "failed",
          reason: "EnsurePortFailed",
          message:
            `Cannot use the subnet of port ${made.id}: it has no gateway, so the port can reach no partner; choose another in spec.openstack.subnetID`,
          retryMs: 60_000,
        };
      }
      // Before the old address is forgotten: half of the partners' packets would go on to nobody.
      const old = gateway.status?.port?.fixedIP;
      if (old !== undefined && old !== made.fixedIP) {
        await ensureRoutes(cloudOf(context), ownerOf(gateway), {
          networkID,
          ...(subnetID === undefined ? {} : { subnetID }),
          nexthop: old,
          destinations: [],
          signal,
        });
      }
      facts.port = {
        id: made.id,
        fixedIP: made.fixedIP,
        prefixLength: made.prefixLength,
        gatewayIP: made.gatewayIP,
        macAddress: made.macAddress,
        mtu: made.mtu,
      };
      return {
        kind: "done",
        reason: "PortReady",
        message: `port ${made.id} has the address ${made.fixedIP}`,
      };
    } catch (error) {
      return failedOutcome("EnsurePortFailed", error, context);
    }
  },
};
