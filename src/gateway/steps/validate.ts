// Step 1: what the object says of itself and of others is usable.
import { isIPv4 } from "node:net";
import type { Reason } from "../../api/ipsec_gateway.ts";
import { nameOf } from "../../api/ipsec_gateway.ts";
import { SECRETS } from "../../kube/kinds.ts";
import { get } from "../../kube/objects.ts";
import { failedTo, OpenStackError } from "../../openstack/errors.ts";
import { CredentialsError } from "../clouds.ts";
import { type GatewayContext, messageOf, type Outcome, type Step } from "../context.ts";
import { guardCloudSecret } from "../cloud_guard.ts";
import { notAllowed, specProblem } from "../spec_rules.ts";

type Failure = Extract<Outcome, { kind: "failed" }>;

function failed(reason: Reason, message: string): Failure {
  return { kind: "failed", reason, message, retryMs: 60_000 };
}

/** What is wrong with the Secret of the keys, or undefined. The keys themselves are never kept. */
async function pskProblem({ gateway, kube, signal }: GatewayContext): Promise<Failure | undefined> {
  const { psk, tunnels } = gateway.spec;
  const namespace = gateway.metadata.namespace ?? "";
  const secret = await get(kube, SECRETS, { namespace, name: psk.secretName, signal });
  if (!secret) {
    return {
      ...failed(
        "SecretNotFound",
        `Secret ${namespace}/${psk.secretName} (spec.psk.secretName of IPsecGateway ${
          nameOf(gateway)
        }) does not exist: create it with a key ${psk.key}`,
      ),
      retryMs: 15_000,
    };
  }
  const shared = tunnels.some((tunnel) => tunnel.psk === undefined) ? [psk.key] : [];
  for (const key of [...shared, ...tunnels.flatMap((tunnel) => tunnel.psk?.key ?? [])]) {
    const value = secret.data?.[key];
    if (value === undefined) {
      return {
        ...failed(
          "SecretKeyMissing",
          `Secret ${namespace}/${psk.secretName} has no key ${key}: add it with the pre-shared key`,
        ),
        retryMs: 15_000,
      };
    }
    // A lone newline ("Cg==") is what remains of a key that was piped in empty.
    if (value === "" || value === "Cg==") {
      return {
        ...failed(
          "SecretKeyMissing",
          `Key ${key} of Secret ${namespace}/${psk.secretName} is empty: put the pre-shared key in it`,
        ),
        retryMs: 15_000,
      };
    }
  }
  return undefined;
}

/** Each peer's IPv4 addresses, sorted. */
async function resolvePeers(context: GatewayContext): Promise<Map<string, readonly string[]> | Failure> {
  const peers = new Map<string, readonly string[]>();
  for (const { name, peer } of context.gateway.spec.tunnels) {
    if (isIPv4(peer.address)) {
      peers.set(name, [peer.address]);
      continue;
    }
    try {
      const addresses = [...await context.resolve(peer.address, { signal: context.signal })].sort();
      if (addresses.length === 0) throw new Error("it has no IPv4 address");
      peers.set(name, addresses);
    } catch (error) {
      context.signal.throwIfAborted();
      return {
        ...failed(
          "PeerUnresolvable",
          `Tunnel ${name}: peer.address ${peer.address} does not resolve (${
            messageOf(error)
          }): correct the name or its DNS record`,
        ),
        retryMs: 15_000,
      };
    }
  }
  return peers;
}

/** Whether the credentials open the cloud: asked now, so that it is this condition that says so. */
async function openCloud(context: GatewayContext): Promise<Failure | undefined> {
  try {
    const cloud = await context.clouds.for(context.gateway, { signal: context.signal });
    await cloud.request({
      service: "network",
      method: "GET",
      path: "/v2.0/networks",
      query: { limit: 1, fields: "id" },
      signal: context.signal,
    });
    context.facts.cloud = cloud;
    return undefined;
  } catch (error) {
    if (error instanceof CredentialsError) return { ...failed(error.reason, error.message), retryMs: 15_000 };
    if (!(error instanceof OpenStackError)) throw error;
    const refused = [401, 403].includes(error.status) || error.type === "NoEndpoint" ||
      (error.service === "identity" && error.status === 404);
    const { metadata, spec } = context.gateway;
    const secret = spec.openstack?.cloudSecretRef?.name;
    const cloud = secret === undefined
      ? "the operator's cloud"
      : `the cloud of Secret ${metadata.namespace}/${secret}`;
    return {
      ...failed(
        refused ? "CloudCredentialsInvalid" : "CloudUnreachable",
        failedTo(`open ${cloud} for IPsecGateway ${nameOf(context.gateway)}`, error).message,
      ),
      retryMs: 15_000,
    };
  }
}

export const validate: Step = {
  name: "validate",
  condition: "Validated",
  async run(context) {
    const { gateway, options } = context;
    const network = { nodes: context.nodes(), apiServer: context.apiServer, pools: options.serviceCIDRPool };
    const wrong = specProblem(gateway, network) ?? notAllowed(gateway, options);
    if (wrong) return failed(wrong.reason, wrong.message);
    const problem = await pskProblem(context);
    if (problem) return problem;
    const peers = await resolvePeers(context);
    if (!(peers instanceof Map)) return peers;
    context.facts.peers = peers;
    await guardCloudSecret(context);
    const closed = await openCloud(context);
    if (closed) return closed;
    return { kind: "done", reason: "Valid", message: "the spec and everything it names can be used" };
  },
};
