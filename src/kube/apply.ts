/** Server-side apply that writes only what differs, and never over somebody else's object. */
import { canonical } from "./canonical.ts";
import type { KubeClient } from "./client.ts";
import { KubeError } from "./errors.ts";
import { apply, type CallOptions, get } from "./objects.ts";
import { describe, type KubeObject, type Resource } from "./resource.ts";

/** Thrown when an object of the wanted name is there and not ours. */
export class ForeignObjectError extends Error {
  override readonly name = "ForeignObjectError";
  /** `ConfigMap "ns/name"`. */
  readonly object: string;
  /** Who owns it, as far as it says. */
  readonly owner: string;

  constructor(object: string, owner: string) {
    super(
      `Cannot apply ${object}: an object of that name is there and belongs to ${owner}; rename or remove it`,
    );
    this.object = object;
    this.owner = owner;
  }
}

export interface ApplyIfChangedOptions<T> extends CallOptions {
  /** Everything that this manager wants of the object. */
  object: T;
  fieldManager: string;
  /** Whether a live object of that name is ours to change. */
  isOurs: (live: T) => boolean;
  /** The live object from a cache, or null when the cache has none; read from the API server when not given. */
  live?: T | null | undefined;
  /**
   * An annotation that keeps a digest of what was applied. Without it a field that is no longer wanted (a key of a
   * ConfigMap, a label) goes unnoticed, since the comparison only looks for what is wanted. Not for Secrets.
   */
  digestAnnotation?: string | undefined;
}

export interface Applied<T> {
  action: "created" | "updated" | "unchanged";
  object: T;
}

/**
 * Brings a live object to what is wanted by server-side apply (forced: what we want of our own object, we own);
 * writes nothing when every wanted field is there already.
 *
 * @throws ForeignObjectError when `isOurs` says no; KubeError.
 */
export async function applyIfChanged<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  { object, fieldManager, isOurs, live, digestAnnotation, ...options }: ApplyIfChangedOptions<T>,
): Promise<Applied<T>> {
  const { namespace, name = "" } = object.metadata ?? {};
  const found = live === undefined ? await get(client, resource, { namespace, name, ...options }) : live;
  if (found && !isOurs(found)) {
    throw new ForeignObjectError(describe(resource, { namespace, name }), ownerOf(found));
  }
  const wanted = digestAnnotation ? await withDigest(object, digestAnnotation) : object;
  if (found && isSubset(wanted, found)) return { action: "unchanged", object: found };
  // With its uid it is this object that is changed, or none: not a new one of the same name.
  const uid = found?.metadata?.uid;
  const sent: T = uid ? { ...wanted, metadata: { ...wanted.metadata, uid } } : wanted;
  try {
    const stored = await apply(client, resource, { object: sent, fieldManager, force: true, ...options });
    return { action: found ? "updated" : "created", object: stored };
  } catch (error) {
    if (live === undefined || !isOtherObject(error)) throw error;
    // The cache was behind: look at what is there now.
    const again = { object, fieldManager, isOurs, digestAnnotation, ...options };
    return await applyIfChanged(client, resource, again);
  }
}

/** Whether an apply failed because the object of that uid is gone (409), or another has its name (422). */
function isOtherObject(error: unknown): boolean {
  return error instanceof KubeError &&
    (error.code === 409 || error.details?.causes?.some(({ field }) => field === "metadata.uid") === true);
}

/**
 * Whether everything in `wanted` is in `live`: objects may have more fields there, lists have the same length and
 * order, an undefined field is not wanted. What the API server writes in another form (quantities: "1000m" is stored
 * as "1") counts as different.
 */
export function isSubset(wanted: unknown, live: unknown): boolean {
  if (Array.isArray(wanted)) {
    // Here and below: the API server drops empty lists and maps.
    if (wanted.length === 0 && live === undefined) return true;
    return Array.isArray(live) && wanted.length === live.length &&
      wanted.every((each, index) => isSubset(each, live[index]));
  }
  if (typeof wanted === "object" && wanted !== null) {
    if (typeof live !== "object" || live === null || Array.isArray(live)) {
      return live === undefined && Object.values(wanted).every((each) => each === undefined);
    }
    const there = live as Record<string, unknown>;
    return Object.entries(wanted).every(([key, each]) => each === undefined || isSubset(each, there[key]));
  }
  return wanted === live;
}

async function withDigest<T extends KubeObject>(object: T, annotation: string): Promise<T> {
  const bytes = new TextEncoder().encode(canonical(object));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).slice(0, 16);
  const digest = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const annotations = { ...object.metadata?.annotations, [annotation]: digest };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

/** Whose an object is, by what it says itself. */
function ownerOf(object: KubeObject): string {
  const { ownerReferences = [], labels = {}, managedFields = [] } = object.metadata ?? {};
  const owner = ownerReferences.find((each) => each.controller) ?? ownerReferences[0];
  if (owner) return `${owner.kind} ${JSON.stringify(owner.name)}`;
  const managedBy = labels["app.kubernetes.io/managed-by"];
  if (managedBy) {
    const instance = labels["app.kubernetes.io/instance"];
    return `${managedBy}${instance ? ` (${instance})` : ""}`;
  }
  const managers = [...new Set(managedFields.map((each) => each.manager))].sort();
  return managers.length ? managers.join(", ") : "somebody else";
}
