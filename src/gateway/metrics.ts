// The controller's own series about gateways, read from the cache at each scrape.
import { Gauge, type Registry } from "prom-client";
import type { IPsecGateway } from "../api/ipsec_gateway.ts";
import { GATEWAY_KIND } from "../api/ipsec_gateway.ts";
import { poolSize } from "../ledger/service_cidr.ts";

/** Registers the series; they follow `source` from then on. */
export function registerGatewayMetrics(
  registry: Registry,
  source: { gateways(): readonly IPsecGateway[] },
  pools: readonly string[],
): void {
  const registers = [registry];
  new Gauge({
    name: "ipsec_operator_servicecidr_allocated_ratio",
    help: "Part of the service CIDR pool's /24s that gateways hold, from 0 to 1",
    registers,
    collect() {
      const held = source.gateways().filter((gateway) => gateway.status?.serviceCIDR).length;
      this.set(held / poolSize(pools));
    },
  });
  new Gauge({
    name: "ipsec_operator_condition",
    help: "1 for the status that a condition of an object has, 0 for the others",
    labelNames: ["kind", "namespace", "name", "type", "status"],
    registers,
    collect() {
      this.reset();
      for (const { metadata, status } of source.gateways()) {
        const { namespace = "", name = "" } = metadata;
        for (const condition of status?.conditions ?? []) {
          for (const one of ["True", "False", "Unknown"]) {
            this.set(
              { kind: GATEWAY_KIND, namespace, name, type: condition.type, status: one },
              condition.status === one ? 1 : 0,
            );
          }
        }
      }
    },
  });
}
