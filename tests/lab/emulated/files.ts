// The files of a gateway pod and of its peer, for scenario.sh: the gateway's rendered by the product's own renderers.
//   deno run -A tests/lab/emulated/files.ts DIRECTORY xfrm|libipsec
import { renderAgentConfig } from "../../../src/api/agent_config.ts";
import { gateway, tunnel } from "../../../src/gateway/gateway_builder.ts";
import { tunnelNumbers } from "../../../src/gateway/numbers.ts";
import { renderNatRules } from "../../../src/gateway/render/nat_rules.ts";
import { renderSwanctlConf } from "../../../src/gateway/render/swanctl_conf.ts";

/** Addresses of scenario.sh; the names are its variables. */
export const ADDRESSES = {
  FIXED: "10.0.0.7",
  ROUTER: "10.0.0.1",
  PEER: "203.0.113.250",
  SERVICE_CIDR: "100.64.3.0/24",
  OWN: "100.64.3.1",
  EXPOSURE: "100.64.3.10",
  REMOTE: "192.168.77.0/24",
  HOST: "192.168.77.10",
  POD: "10.244.0.9",
  GATEWAY_POD: "10.244.0.5",
  MAC: "fa:16:3e:12:34:56",
} as const;

/** The if_id of the one tunnel, which names its interface and table. */
export const TUNNEL = "partner";

/** Names and texts of every file below the scenario's directory. */
export function scenarioFiles(driver: "xfrm" | "libipsec", psk: string): Record<string, string> {
  const { FIXED, ROUTER, PEER, SERVICE_CIDR, OWN, EXPOSURE, REMOTE, HOST, POD, MAC } = ADDRESSES;
  const port = {
    id: "0b5c6f0e-0000-4000-8000-00000000000a",
    fixedIP: FIXED,
    prefixLength: 24,
    gatewayIP: ROUTER,
    macAddress: MAC,
    mtu: 1450,
  };
  const partner = tunnel({
    name: TUNNEL,
    peer: { address: PEER, port: 500 },
    remoteSubnets: [REMOTE],
    ike: {
      version: 2,
      proposals: ["aes256gcm16-prfsha256-ecp256"],
      dpdDelay: "10s",
      encapsulation: "force",
      fragmentation: true,
    },
    esp: { proposals: ["aes256gcm16"] },
  });
  const object = gateway({ tunnels: [partner] });
  const ifId = tunnelNumbers(object.spec.tunnels).get(TUNNEL);
  return {
    "rendered/agent.json": renderAgentConfig({
      gateway: "gw",
      namespace: "tenant",
      mode: "nat",
      dataPlane: "auto",
      port,
      serviceCIDR: SERVICE_CIDR,
      snatAddress: OWN,
      psk: { key: "psk" },
      tunnels: [{ name: TUNNEL }],
    }),
    "rendered/swanctl.conf": renderSwanctlConf({
      gateway: object,
      port,
      floatingIP: { address: FIXED },
      serviceCIDR: SERVICE_CIDR,
      peers: new Map([[TUNNEL, [PEER]]]),
    }),
    "nat/nat.rules": renderNatRules(
      [{
        name: "web",
        address: EXPOSURE,
        port: 8080,
        protocol: "TCP",
        targetAddress: POD,
        targetPort: 80,
      }],
      [{ name: "api", podPort: 20001, protocol: "TCP", remoteAddress: HOST, remotePort: 8080 }],
      SERVICE_CIDR,
    ),
    "psk/psk": `${psk}\n`,
    "peer/swanctl.conf": peerConf(psk),
    "variables": Object.entries({ ...ADDRESSES, IF_ID: String(ifId), DRIVER: driver })
      .map(([name, value]) => `${name}=${value}\n`).sort().join(""),
  };
}

/** The partner's side: policy-based, as most firewalls are. */
function peerConf(psk: string): string {
  const { FIXED, PEER, SERVICE_CIDR, REMOTE } = ADDRESSES;
  return `connections {
  gw {
    version = 2
    local_addrs = ${PEER}
    remote_addrs = ${FIXED}
    proposals = aes256gcm16-prfsha256-ecp256
    encap = yes
    mobike = no
    local {
      auth = psk
      id = ${PEER}
    }
    remote {
      auth = psk
      id = ${FIXED}
    }
    children {
      net {
        local_ts = ${REMOTE}
        remote_ts = ${SERVICE_CIDR}
        esp_proposals = aes256gcm16
      }
    }
  }
}
secrets {
  ike-gw {
    id-1 = ${FIXED}
    secret = "${psk}"
  }
}
`;
}

/** Writes them below `directory`. */
export async function writeScenario(directory: string, driver: "xfrm" | "libipsec"): Promise<void> {
  const psk = crypto.randomUUID();
  for (const [name, text] of Object.entries(scenarioFiles(driver, psk))) {
    const path = `${directory}/${name}`;
    await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(path, text);
  }
}

if (import.meta.main) {
  const [directory, driver] = Deno.args;
  if (!directory || (driver !== "xfrm" && driver !== "libipsec")) {
    throw new TypeError("Cannot write the files: usage is files.ts DIRECTORY xfrm|libipsec");
  }
  await writeScenario(directory, driver);
}
