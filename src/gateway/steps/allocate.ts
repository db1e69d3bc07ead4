// Step 2: a /24 of the pool. Taken ones are read from the API server itself, not from a cache, one allocation at a
// time, and what was given is written into the status before the lock is let go.
import { GATEWAYS, nameOf } from "../../api/ipsec_gateway.ts";
import { list } from "../../kube/objects.ts";
import { allocateServiceCidr } from "../../ledger/service_cidr.ts";
import type { Step } from "../context.ts";

/** A full pool is looked at again after this time, in milliseconds. */
const RETRY_MS = 60_000;

export const allocate: Step = {
  name: "allocate",
  condition: "Allocated",
  async run(context) {
    const { gateway, facts, kube, signal } = context;
    const own = gateway.status?.serviceCIDR;
    const wanted = gateway.spec.serviceCIDR;
    if (own !== undefined && (wanted === undefined || wanted === own)) {
      facts.serviceCIDR = own;
      return { kind: "done", reason: "Allocated", message: `the service CIDR is ${own}` };
    }
    return await context.oneAtATime(async () => {
      const taken = new Map<string, string>();
      const { items } = await list(kube, GATEWAYS, { signal });
      for (const other of items) {
        if (other.metadata.uid !== gateway.metadata.uid && other.status?.serviceCIDR) {
          taken.set(other.status.serviceCIDR, `IPsecGateway ${nameOf(other)}`);
        }
      }
      const { cidr, problem } = allocateServiceCidr(context.options.serviceCIDRPool, taken, wanted);
      if (cidr === undefined) {
        return {
          kind: "failed",
          reason: "AllocationFailed",
          message: `Cannot give IPsecGateway ${nameOf(gateway)} a service CIDR: ${problem}`,
          retryMs: RETRY_MS,
        };
      }
      facts.serviceCIDR = cidr;
      await context.saveFacts();
      return { kind: "done", reason: "Allocated", message: `the service CIDR is ${cidr}` };
    });
  },
};
