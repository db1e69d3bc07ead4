// The NetworkAttachmentDefinition that takes the Neutron port's NIC into the pod as net1.
import type { PortStatus } from "../../api/ipsec_gateway.ts";

/**
 * CNI configuration, as JSON: host-device finds the NIC by its MAC, static gives it the port's address, tuning turns on
 * forwarding (0 in many pods, and no unprivileged container could) and turns off the reverse path filter.
 */
export function attachmentConfig(name: string, port: PortStatus): string {
  return JSON.stringify({
    cniVersion: "0.4.0",
    name,
    plugins: [
      {
        type: "host-device",
        hwaddr: port.macAddress,
        ipam: { type: "static", addresses: [{ address: `${port.fixedIP}/${port.prefixLength}` }] },
      },
      {
        type: "tuning",
        sysctl: {
          "net.ipv4.ip_forward": "1",
          "net.ipv4.conf.all.rp_filter": "0",
          "net.ipv4.conf.net1.rp_filter": "0",
        },
      },
    ],
  });
}
