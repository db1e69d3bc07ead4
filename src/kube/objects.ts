/** The verbs of the API for objects of a {@linkcode Resource}, as raw JSON. */
import type { KubeClient, KubeRequest } from "./client.ts";
import { isConflict, isExpired, isNotFound } from "./errors.ts";
import { apiVersion, type KubeObject, pathOf, type Place, type Resource } from "./resource.ts";

/** What every call takes. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
}

export interface ListOptions extends CallOptions {
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  /** Objects a page, 500. */
  pageSize?: number | undefined;
}

/** A whole collection, and the version from which a watch continues it. */
export interface ObjectList<T> {
  items: T[];
  resourceVersion: string;
}

interface RawList<T> {
  items?: T[] | null;
  metadata?: { resourceVersion?: string; continue?: string };
}

function base({ signal, timeoutMs }: CallOptions): Pick<KubeRequest, "signal" | "timeoutMs"> {
  return { signal, timeoutMs };
}

/**
 * Reads one object; undefined when there is none.
 *
 * @throws KubeError
 */
export async function get<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  { namespace, name, ...options }: { namespace?: string | undefined; name: string } & CallOptions,
): Promise<T | undefined> {
  try {
    return await client.request<T>({
      method: "GET",
      path: pathOf(resource, { namespace, name }),
      ...base(options),
    });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/**
 * Reads a collection page by page, consistent as of the first page. When the pages expire on the way (410) it starts
 * again, twice at most. Items get the apiVersion and kind that the API server leaves out in lists.
 *
 * @throws KubeError
 */
export async function list<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  { namespace, labelSelector, fieldSelector, pageSize = 500, ...options }: ListOptions = {},
): Promise<ObjectList<T>> {
  const path = pathOf(resource, { namespace });
  for (let attempt = 0;; attempt++) {
    const items: T[] = [];
    let next: string | undefined;
    try {
      for (;;) {
        const page: RawList<T> = await client.request<RawList<T>>({
          method: "GET",
          path,
          query: { labelSelector, fieldSelector, limit: pageSize, continue: next },
          ...base(options),
        });
        for (const item of page.items ?? []) {
          item.apiVersion ??= apiVersion(resource);
          item.kind ??= resource.kind;
          items.push(item);
        }
        next = page.metadata?.continue || undefined;
        if (!next) return { items, resourceVersion: page.metadata?.resourceVersion ?? "" };
      }
    } catch (error) {
      if (!(next && isExpired(error) && attempt < 2)) throw error;
    }
  }
}

/**
 * Creates an object; its namespace is the one in its metadata.
 *
 * @throws KubeError reason "AlreadyExists" when the name is taken.
 */
export async function create<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  { object, fieldManager, ...options }: { object: T; fieldManager?: string | undefined } & CallOptions,
): Promise<T> {
  return await client.request<T>({
    method: "POST",
    path: pathOf(resource, { namespace: object.metadata?.namespace }),
    query: { fieldManager },
    body: { apiVersion: apiVersion(resource), kind: resource.kind, ...object },
    ...base(options),
  });
}

/**
 * Replaces an object as a whole; with `metadata.resourceVersion` only the version that was read.
 *
 * @throws KubeError reason "Conflict" when another version is stored.
 */
export async function replace<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  { object, fieldManager, ...options }: { object: T; fieldManager?: string | undefined } & CallOptions,
): Promise<T> {
  return await client.request<T>({
    method: "PUT",
    path: pathOf(resource, placeOf(object)),
    query: { fieldManager },
    body: { apiVersion: apiVersion(resource), kind: resource.kind, ...object },
    ...base(options),
  });
}

export interface DeleteOptions extends CallOptions {
  namespace?: string | undefined;
  name: string;
  /** Deletes only this very object, not a new one of the same name. */
  uid?: string | undefined;
  /** 0 removes a pod from the API at once, without waiting for its node. */
  gracePeriodSeconds?: number | undefined;
  propagationPolicy?: "Background" | "Foreground" | "Orphan" | undefined;
}

/**
 * Deletes an object; false when there was none, or not that of `uid`. With finalizers it is gone only later.
 *
 * @throws KubeError
 */
export async function remove(
  client: KubeClient,
  resource: Resource,
  { namespace, name, uid, gracePeriodSeconds, propagationPolicy = "Background", ...options }: DeleteOptions,
): Promise<boolean> {
  const body = {
    apiVersion: "v1",
    kind: "DeleteOptions",
    propagationPolicy,
    ...gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds },
    ...uid === undefined ? {} : { preconditions: { uid } },
  };
  try {
    await client.request({
      method: "DELETE",
      path: pathOf(resource, { namespace, name }),
      body,
      ...base(options),
    });
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    if (uid === undefined || !isConflict(error)) throw error;
    // The precondition failed: either it is another object, or the conflict is one that its caller has to see.
    const live = await get(client, resource, { namespace, name, ...options });
    if (live?.metadata?.uid === uid) throw error;
    return false;
  }
}

export interface PatchOptions extends CallOptions {
  namespace?: string | undefined;
  name: string;
  subresource?: string | undefined;
  fieldManager?: string | undefined;
  /** A JSON merge patch (RFC 7386): null deletes a field, lists are replaced as a whole. */
  patch: unknown;
}

/**
 * Applies a JSON merge patch. With `metadata.resourceVersion` in it, only to that version.
 *
 * @throws KubeError
 */
export async function mergePatch<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  { namespace, name, subresource, fieldManager, patch, ...options }: PatchOptions,
): Promise<T> {
  return await client.request<T>({
    method: "PATCH",
    path: pathOf(resource, { namespace, name, subresource }),
    query: { fieldManager },
    contentType: "application/merge-patch+json",
    body: patch,
    ...base(options),
  });
}

export interface ApplyOptions<T> extends CallOptions {
  /** Exactly the fields that this manager owns; what it applied before and is not here any more gets removed. */
  object: T;
  fieldManager: string;
  /** Takes over fields that other managers own with other values. */
  force?: boolean | undefined;
  subresource?: string | undefined;
}

/**
 * Server-side apply: creates the object or merges the fields of one manager.
 *
 * @throws KubeError code 409 when another manager owns a field and `force` is not set; `details.causes` names them.
 */
export async function apply<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  { object, fieldManager, force, subresource, ...options }: ApplyOptions<T>,
): Promise<T> {
  return await client.request<T>({
    method: "PATCH",
    path: pathOf(resource, { ...placeOf(object), subresource }),
    query: { fieldManager, force },
    contentType: "application/apply-patch+yaml",
    body: { apiVersion: apiVersion(resource), kind: resource.kind, ...object },
    ...base(options),
  });
}

function placeOf(object: KubeObject): Place {
  const { namespace, name } = object.metadata ?? {};
  if (!name) throw new TypeError("Cannot write an object: its metadata has no name");
  return { namespace, name };
}
