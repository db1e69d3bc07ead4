// Builds IPsecGateway objects for tests, as the API server would hand them out: with defaults.
import {
  API_VERSION,
  GATEWAY_KIND,
  type IPsecGateway,
  type IPsecGatewayStatus,
  type TunnelSpec,
} from "../api/ipsec_gateway.ts";

/** A tunnel with the defaults that the API server fills in. */
export function tunnel(fields: Partial<TunnelSpec> = {}): TunnelSpec {
  return {
    name: "berlin",
    peer: { address: "203.0.113.250", port: 500 },
    ike: { version: 2, dpdDelay: "30s", encapsulation: "auto", fragmentation: true },
    startAction: "start",
    ...(fields.children ? {} : { remoteSubnets: ["192.168.77.0/24"] }),
    ...fields,
  };
}

/** A gateway "tenant/gw" with one tunnel. */
export function gateway(
  spec: Partial<IPsecGateway["spec"]> = {},
  rest: { status?: IPsecGatewayStatus; metadata?: Partial<IPsecGateway["metadata"]> } = {},
): IPsecGateway {
  return {
    apiVersion: API_VERSION,
    kind: GATEWAY_KIND,
    metadata: {
      name: "gw",
      namespace: "tenant",
      uid: "0b5c6f0e-0000-4000-8000-000000000001",
      generation: 3,
      ...rest.metadata,
    },
    spec: { psk: { secretName: "keys", key: "psk" }, mode: "nat", tunnels: [tunnel()], ...spec },
    ...(rest.status ? { status: rest.status } : {}),
  };
}
