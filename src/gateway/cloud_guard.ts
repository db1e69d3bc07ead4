// A gateway needs its cloud Secret to clean up after itself: the Secret stays, held by a finalizer, until the last
// gateway that names it is gone. Otherwise the deletion of a namespace could never finish.
import { CLEANUP_FINALIZER, GATEWAYS, GROUP, type IPsecGateway } from "../api/ipsec_gateway.ts";
import type { KubeClient } from "../kube/client.ts";
import { isConflict, isNotFound } from "../kube/errors.ts";
import { SECRETS } from "../kube/kinds.ts";
import { get, list, mergePatch } from "../kube/objects.ts";

const FINALIZER = `${GROUP}/cloud-credentials`;

interface Call {
  readonly kube: KubeClient;
  readonly gateway: IPsecGateway;
  readonly signal: AbortSignal;
}

/** Puts the guard on the Secret, if the gateway names one that is there and not yet guarded. */
export async function guardCloudSecret({ kube, gateway, signal }: Call): Promise<void> {
  await change(
    { kube, gateway, signal },
    (finalizers) => finalizers.includes(FINALIZER) ? undefined : [...finalizers, FINALIZER],
  );
}

/**
 * Takes the guard off, unless another gateway of the namespace names the Secret. Two that go at the same time must not
 * each see the other: the caller lets one at a time do this together with the removal of its own finalizer.
 */
export async function releaseCloudSecret({ kube, gateway, signal }: Call): Promise<void> {
  const name = gateway.spec.openstack?.cloudSecretRef?.name;
  if (name === undefined) return;
  const { items } = await list(kube, GATEWAYS, { namespace: gateway.metadata.namespace, signal });
  const others = items.some((other) =>
    other.metadata.uid !== gateway.metadata.uid && other.spec.openstack?.cloudSecretRef?.name === name &&
    !isCleaned(other)
  );
  if (others) return;
  await change(
    { kube, gateway, signal },
    (finalizers) =>
      finalizers.includes(FINALIZER) ? finalizers.filter((one) => one !== FINALIZER) : undefined,
  );
}

/** Whether it is only held by somebody else any more, for instance by a deletion in the foreground. */
function isCleaned({ metadata }: IPsecGateway): boolean {
  return metadata.deletionTimestamp !== undefined && !metadata.finalizers?.includes(CLEANUP_FINALIZER);
}

async function change(
  { kube, gateway, signal }: Call,
  next: (finalizers: string[]) => string[] | undefined,
): Promise<void> {
  const name = gateway.spec.openstack?.cloudSecretRef?.name;
  const namespace = gateway.metadata.namespace ?? "";
  if (name === undefined) return;
  for (;;) {
    const secret = await get(kube, SECRETS, { namespace, name, signal });
    const finalizers = secret && next(secret.metadata?.finalizers ?? []);
    if (!secret || finalizers === undefined) return;
    // A finalizer cannot be added to what is already being deleted.
    if (secret.metadata?.deletionTimestamp && finalizers.includes(FINALIZER)) return;
    try {
      const metadata = { finalizers, resourceVersion: secret.metadata?.resourceVersion };
      await mergePatch(kube, SECRETS, { namespace, name, patch: { metadata }, signal });
      return;
    } catch (error) {
      if (isNotFound(error)) return;
      if (!isConflict(error)) throw error;
      signal.throwIfAborted();
    }
  }
}
