/** The names of an API resource, and the objects behind it. */
import type { ObjectMeta } from "kubernetes-types/meta/v1.d.ts";

export type { ObjectMeta };

/** Anything that the API server stores: raw JSON, with whatever fields it has. */
export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
}

/**
 * One resource of the API. `T` is the type of its objects; it is a promise of the caller, nothing is validated.
 * `group` is "" for the core group; `plural` is the part of the path ("configmaps").
 */
export interface Resource<T extends KubeObject = KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never set: it only carries `T`. */
  readonly objectType?: T;
}

/** A namespaced resource of `apiVersion` ("v1", "apps/v1"). */
export function namespaced<T extends KubeObject>(
  apiVersion: string,
  plural: string,
  kind: string,
): Resource<T> {
  return resource<T>(apiVersion, { plural, kind, namespaced: true });
}

/** A cluster-wide resource of `apiVersion` ("v1", "apps/v1"). */
export function clusterWide<T extends KubeObject>(
  apiVersion: string,
  plural: string,
  kind: string,
): Resource<T> {
  return resource<T>(apiVersion, { plural, kind, namespaced: false });
}

function resource<T extends KubeObject>(
  apiVersion: string,
  names: { plural: string; kind: string; namespaced: boolean },
): Resource<T> {
  const [version, group = ""] = apiVersion.split("/").reverse();
  if (!version) {
    throw new TypeError(`Cannot name a resource: its apiVersion is ${JSON.stringify(apiVersion)}`);
  }
  return { group, version, ...names };
}

/** `apiVersion` of the resource's objects. */
export function apiVersion(resource: Resource): string {
  return resource.group ? `${resource.group}/${resource.version}` : resource.version;
}

/** Where an object, or with no name a collection, is. A namespaced collection without namespace spans all. */
export interface Place {
  namespace?: string | undefined;
  name?: string | undefined;
  subresource?: string | undefined;
}

/**
 * The path of an object or a collection.
 *
 * @throws TypeError when an object of a namespaced resource has no namespace.
 */
export function pathOf(resource: Resource, { namespace, name, subresource }: Place = {}): string {
  const parts = resource.group ? ["/apis", resource.group, resource.version] : ["/api", resource.version];
  if (resource.namespaced && namespace !== undefined) parts.push("namespaces", encodeURIComponent(namespace));
  else if (resource.namespaced && name !== undefined) {
    throw new TypeError(
      `Cannot address ${resource.kind} ${JSON.stringify(name)}: its namespace is not given`,
    );
  }
  parts.push(resource.plural);
  if (name !== undefined) parts.push(encodeURIComponent(name));
  if (subresource !== undefined) parts.push(subresource);
  return parts.join("/");
}

/** How an object is called in messages: `ConfigMap "ns/name"`. */
export function describe(resource: Resource, { namespace, name }: Place): string {
  return `${resource.kind} ${JSON.stringify(namespace ? `${namespace}/${name}` : name ?? "")}`;
}

/** Key of an object in queues and maps: `namespace/name`, or the bare name where there is no namespace. */
export function keyOf(object: KubeObject): string {
  const { namespace, name = "" } = object.metadata ?? {};
  return namespace ? `${namespace}/${name}` : name;
}

/** The two parts of a {@linkcode keyOf}. */
export function splitKey(key: string): { namespace: string | undefined; name: string } {
  const slash = key.indexOf("/");
  return slash < 0
    ? { namespace: undefined, name: key }
    : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}
