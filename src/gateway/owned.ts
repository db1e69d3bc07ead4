// The Kubernetes objects of a gateway: written only when they differ, and never over a foreign object.
import {
  CONTROLLER_MANAGER,
  GATEWAY_LABEL,
  GROUP,
  type IPsecGateway,
  MANAGED_BY,
  MANAGED_BY_LABEL,
} from "../api/ipsec_gateway.ts";
import { applyIfChanged } from "../kube/apply.ts";
import type { KubeClient } from "../kube/client.ts";
import { KubeError } from "../kube/errors.ts";
import { describe, type KubeObject, type Resource } from "../kube/resource.ts";
import { belongsTo } from "./names.ts";

/** Keeps what was applied, so that a field that is no longer wanted is noticed. */
const DIGEST_ANNOTATION = `${GROUP}/applied`;

interface Owning {
  readonly gateway: IPsecGateway;
  readonly kube: KubeClient;
  readonly signal: AbortSignal;
}

/**
 * Server-side apply of one object of the gateway.
 * @throws ForeignObjectError when an object of that name is there and not the gateway's; KubeError
 */
export async function applyOwned<T extends KubeObject>(
  context: Owning,
  resource: Resource<T>,
  object: T,
): Promise<T> {
  const { gateway, kube, signal } = context;
  try {
    const applied = await applyIfChanged(kube, resource, {
      object,
      fieldManager: CONTROLLER_MANAGER,
      isOurs: (live) => belongsTo(gateway, live),
      digestAnnotation: DIGEST_ANNOTATION,
      signal,
    });
    return applied.object;
  } catch (error) {
    throw error instanceof KubeError ? named(error, describe(resource, object.metadata ?? {})) : error;
  }
}

/** The error with the object in place of the call: people read it in a condition. */
export function named(error: KubeError, object: string): KubeError {
  const { code, reason, details } = error;
  const message = error.message.replace(/^Cannot [A-Z]+ \/\S+?(?=: |$)/, () => `Cannot apply ${object}`);
  return new KubeError(message, { code, reason, details, cause: error });
}

/** What selects the gateway's objects in a list. */
export function labelSelector(gateway: IPsecGateway): string {
  return `${MANAGED_BY_LABEL}=${MANAGED_BY},${GATEWAY_LABEL}=${gateway.metadata.name}`;
}
