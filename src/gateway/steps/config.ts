// Step 8: the NetworkAttachmentDefinition, and the ConfigMaps that the pod reads.
import type { AgentConfig } from "../../api/agent_config.ts";
import { renderAgentConfig } from "../../api/agent_config.ts";
import type { ExposureSpec, PortStatus } from "../../api/ipsec_gateway.ts";
import { CONFIG_MAPS, NETWORK_ATTACHMENT_DEFINITIONS, SERVICES } from "../../kube/kinds.ts";
import { get, list, remove } from "../../kube/objects.ts";
import { addressAt, contains } from "../../ledger/service_cidr.ts";
import { failedOutcome } from "../failure.ts";
import type { GatewayContext, Outcome, Step } from "../context.ts";
import {
  attachmentName,
  belongsTo,
  objectLabels,
  objectNames,
  ownerReference,
  reverseServiceName,
} from "../names.ts";
import { reversePorts } from "../numbers.ts";
import { applyOwned, labelSelector } from "../owned.ts";
import { type RenderedExposure, renderNatRules } from "../render/nat_rules.ts";
import { attachmentConfig } from "../render/network_attachment.ts";
import { renderSwanctlConf } from "../render/swanctl_conf.ts";

/** Exposures without an address get theirs from here up; below are the gateway's own and room for a person's. */
const FIRST_EXPOSURE = 10;

/** Something that cannot be rendered; the message names it. */
class RenderError extends Error {
  override readonly name = "RenderError";
}

/**
 * The address of each exposure: what the spec says, else what it had, else the lowest one that has that port free.
 * Throws RenderError when an address is outside the service CIDR or used twice with one port.
 */
export function exposureAddresses(
  exposures: readonly ExposureSpec[],
  before: ReadonlyMap<string, string>,
  serviceCIDR: string,
): Map<string, string> {
  const used = new Map<string, string>();
  const addresses = new Map<string, string>();
  const key = (address: string, { protocol, port }: ExposureSpec) => `${address} ${protocol} ${port}`;
  const take = (exposure: ExposureSpec, address: string) => {
    const other = used.get(key(address, exposure));
    if (other !== undefined) {
      throw new RenderError(
        `Exposures ${other} and ${exposure.name} both want ${address} ${exposure.protocol} ${exposure.port}: change the ip or port of one`,
      );
    }
    used.set(key(address, exposure), exposure.name);
    addresses.set(exposure.name, address);
  };
  for (const exposure of exposures) {
    if (exposure.ip === undefined) continue;
    if (!contains(serviceCIDR, exposure.ip)) {
      throw new RenderError(
        `Exposure ${exposure.name}: ${exposure.ip} is not in the service CIDR ${serviceCIDR}`,
      );
    }
    take(exposure, exposure.ip);
  }
  const free = (exposure: ExposureSpec, address: string) =>
    contains(serviceCIDR, address) && !used.has(key(address, exposure));
  const rest = exposures.filter((exposure) => exposure.ip === undefined);
  for (const exposure of rest) {
    const old = before.get(exposure.name);
    if (old !== undefined && free(exposure, old)) take(exposure, old);
  }
  for (const exposure of rest) {
    if (addresses.has(exposure.name)) continue;
    let n = FIRST_EXPOSURE;
    while (!free(exposure, addressAt(serviceCIDR, n))) n++;
    take(exposure, addressAt(serviceCIDR, n));
  }
  return addresses;
}

/** Where an exposure leads: a Service's ClusterIP, or the address given. */
async function target(
  { gateway, kube, signal }: GatewayContext,
  exposure: ExposureSpec,
): Promise<{ address: string; port: number }> {
  const { service, address, port } = exposure.target;
  if (!service) return { address: address ?? "", port: port ?? 0 };
  const namespace = gateway.metadata.namespace ?? "";
  const live = await get(kube, SERVICES, { namespace, name: service.name, signal });
  const where = `Service ${namespace}/${service.name} (exposure ${exposure.name})`;
  if (!live) throw new RenderError(`${where} does not exist: create it or change the exposure's target`);
  const clusterIP = live.spec?.clusterIP;
  if (!clusterIP || clusterIP === "None" || !clusterIP.includes(".")) {
    throw new RenderError(`${where} has no IPv4 ClusterIP: use another Service, or target.address`);
  }
  if (
    !live.spec?.ports?.some((one) =>
      one.port === service.port && (one.protocol ?? "TCP") === exposure.protocol
    )
  ) {
    throw new RenderError(
      `${where} has no ${exposure.protocol} port ${service.port}: correct target.service.port`,
    );
  }
  return { address: clusterIP, port: service.port };
}

/**
 * The exposures that can be rendered, and what is wrong with the others. One whose Service is gone must lose its rule:
 * its ClusterIP may soon be another tenant's.
 */
async function renderExposures(
  context: GatewayContext,
  serviceCIDR: string,
): Promise<{ readonly rendered: RenderedExposure[]; readonly problems: string[] }> {
  const exposures = context.gateway.spec.exposures ?? [];
  const before = new Map(
    (context.gateway.status?.exposures ?? []).map((one) => [one.name, one.address ?? ""]),
  );
  const addresses = exposureAddresses(exposures, before, serviceCIDR);
  const rendered: RenderedExposure[] = [];
  const problems: string[] = [];
  for (const exposure of exposures) {
    let to: { address: string; port: number };
    try {
      to = await target(context, exposure);
    } catch (error) {
      if (!(error instanceof RenderError)) throw error;
      problems.push(error.message);
      continue;
    }
    rendered.push({
      name: exposure.name,
      address: addresses.get(exposure.name) ?? "",
      port: exposure.port,
      protocol: exposure.protocol,
      targetAddress: to.address,
      targetPort: to.port,
    });
  }
  return { rendered, problems };
}

function agentConfig(
  { gateway, options }: GatewayContext,
  port: PortStatus,
  serviceCIDR: string,
): AgentConfig {
  const { spec, metadata } = gateway;
  return {
    gateway: metadata.name ?? "",
    namespace: metadata.namespace ?? "",
    mode: spec.mode,
    dataPlane: options.dataPlane,
    port,
    serviceCIDR,
    snatAddress: addressAt(serviceCIDR, 1),
    ...(spec.mtu === undefined ? {} : { mtu: spec.mtu }),
    ...(spec.mss === undefined ? {} : { mss: spec.mss }),
    psk: { key: spec.psk.key },
    tunnels: spec.tunnels.map((tunnel) => ({
      name: tunnel.name,
      ...(tunnel.psk ? { pskKey: tunnel.psk.key } : {}),
    })),
  };
}

/** Attachments of ports that the gateway had before. */
async function removeOldAttachments({ gateway, kube, signal }: GatewayContext, keep: string): Promise<void> {
  const namespace = gateway.metadata.namespace ?? "";
  const { items } = await list(kube, NETWORK_ATTACHMENT_DEFINITIONS, {
    namespace,
    labelSelector: labelSelector(gateway),
    signal,
  });
  for (const attachment of items) {
    const { metadata } = attachment;
    if (metadata?.name === keep || !belongsTo(gateway, attachment)) continue;
    await remove(kube, NETWORK_ATTACHMENT_DEFINITIONS, {
      namespace,
      name: metadata?.name ?? "",
      uid: metadata?.uid,
      signal,
    });
  }
}

async function render(context: GatewayContext): Promise<Outcome> {
  const { gateway, facts } = context;
  const { port, serviceCIDR, peers } = facts;
  // Ahead of the cutover the address is not ours yet; the spec says which one it will be.
  const address = facts.floatingIP?.address ?? gateway.spec.endpoint?.floatingIP;
  if (!port || !serviceCIDR || !peers || address === undefined) {
    throw new TypeError("Cannot render: an earlier step has not run");
  }
  const nat = gateway.spec.mode === "nat";
  const { rendered: exposures, problems } = nat
    ? await renderExposures(context, serviceCIDR)
    : { rendered: [], problems: [] };
  const reverse = nat ? gateway.spec.reverseExposures ?? [] : [];
  const ports = reversePorts(reverse);
  const names = objectNames(gateway.metadata.name ?? "");
  const metadata = (name: string) => ({
    name,
    namespace: gateway.metadata.namespace ?? "",
    labels: objectLabels(gateway.metadata.name ?? ""),
    ownerReferences: [ownerReference(gateway)],
  });
  facts.attachment = await attachmentName(gateway.metadata.name ?? "", port.macAddress, port.fixedIP);
  await applyOwned(context, NETWORK_ATTACHMENT_DEFINITIONS, {
    metadata: metadata(facts.attachment),
    spec: { config: attachmentConfig(facts.attachment, port) },
  });
  await applyOwned(context, CONFIG_MAPS, {
    metadata: metadata(names.swanctl),
    data: {
      "agent.json": renderAgentConfig(agentConfig(context, port, serviceCIDR)),
      "swanctl.conf": renderSwanctlConf({ gateway, port, floatingIP: { address }, serviceCIDR, peers }),
    },
  });
  await applyOwned(context, CONFIG_MAPS, {
    metadata: metadata(names.nat),
    data: {
      "nat.rules": renderNatRules(
        exposures,
        reverse.map((one) => ({ ...one, podPort: ports.get(one.name) ?? 0 })),
        nat ? serviceCIDR : undefined,
      ),
    },
  });
  await removeOldAttachments(context, facts.attachment);
  facts.exposures = exposures.map(({ name, address, port }) => ({ name, address, port }));
  facts.reverseExposures = reverse.map(({ name }) => ({
    name,
    serviceName: reverseServiceName(gateway.metadata.name ?? "", name),
  }));
  if (problems.length) {
    return { kind: "failed", reason: "RenderFailed", message: problems.join("; "), retryMs: 15_000 };
  }
  return {
    kind: "done",
    reason: "Rendered",
    message: `ConfigMaps ${names.swanctl} and ${names.nat} are current`,
  };
}

export const config: Step = {
  name: "configuration",
  condition: "ConfigRendered",
  ahead: true,
  async run(context) {
    try {
      return await render(context);
    } catch (error) {
      return failedOutcome("RenderFailed", error, context);
    }
  },
};
