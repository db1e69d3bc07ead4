import type { OpenStack, Query } from "../contract.ts";
import { failedTo, isAmbiguous, naming, OpenStackError } from "../errors.ts";
import { type CallOptions, remove, type Taggable } from "../neutron.ts";
import { addTag, supportsTags } from "../tags.ts";
import { markedDescription, type Owner, tagKey } from "./owner.ts";

interface Resource {
  id: string;
  name?: string;
  description: string;
  tags: string[];
  created_at: string;
}

/** How one kind of resource is listed, created and called. */
export interface OwnedKind<T extends Resource> {
  kind: Taggable;
  /** For errors: "security group". */
  called: string;
  list: (query: Query) => Promise<T[]>;
  /** False for one that is in use, which is never deleted as a double. Default: all are idle. */
  idle?: (one: T) => boolean;
}

/** What is the owner's, oldest first. */
export interface Owned<T> {
  /** Carry the owner's tag (or its marker, where the cloud has no tags). */
  tagged: T[];
  /** Carry the owner's name and description but no tag of this key: left by a create whose tagging failed. */
  twins: T[];
}

/**
 * Looks up what is the owner's: by tag, and if there is none (or `alsoTwins`) by name and description.
 * The service's filters are checked here again, since one that does not know a filter may ignore it.
 */
export async function findOwned<T extends Resource>(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { of: OwnedKind<T>; alsoTwins?: boolean },
): Promise<Owned<T>> {
  const { of, alsoTwins } = options;
  const tags = await supportsTags(os, options);
  const tagged = tags
    ? (await of.list({ tags: owner.tag })).filter((one) => one.tags.includes(owner.tag))
    : [];
  if (tagged.length > 0 && !alsoTwins) return { tagged: tagged.toSorted(byAge), twins: [] };
  const description = markedDescription(owner);
  const key = tagKey(owner.tag);
  const twins = (await of.list({ description })).filter((one) =>
    one.description === description && (one.name === undefined || one.name === owner.name) &&
    !one.tags.some((tag) => tag.startsWith(key))
  );
  return tags
    ? { tagged: tagged.toSorted(byAge), twins: twins.toSorted(byAge) }
    : { tagged: twins.toSorted(byAge), twins: [] };
}

/**
 * Creates whose answer was lost and that were not seen at once may still land, beside the one that was made next. For
 * so many looks (some 10 minutes of retries and resyncs) such a late double is watched for.
 */
const LATE_LOOKS = 40;
const suspected = new WeakMap<OpenStack, Map<string, number>>();

function keyOf(owner: Owner, of: { kind: Taggable }): string {
  return `${of.kind} ${owner.tag}`;
}

function looksLeft(os: OpenStack, owner: Owner, of: { kind: Taggable }): number {
  return suspected.get(os)?.get(keyOf(owner, of)) ?? 0;
}

function noteLook(os: OpenStack, owner: Owner, of: { kind: Taggable }): void {
  suspected.get(os)?.set(keyOf(owner, of), looksLeft(os, owner, of) - 1);
}

/** Deletes what two controllers at once, or a lost call, made beside the one that is kept; not what is in use. */
async function removeDoubles<T extends Resource>(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { of: OwnedKind<T>; doubles: T[] },
): Promise<void> {
  const { of, doubles, signal } = options;
  for (const double of doubles) {
    if (of.idle && !of.idle(double)) continue;
    try {
      await remove(os, of.kind, { id: double.id, ...(signal ? { signal } : {}) });
    } catch (error) {
      // A group that the port still uses goes at a later look, when the port has the one that is kept.
      if (error instanceof OpenStackError && error.status === 409) continue;
      throw failedTo(`delete ${of.called} ${double.id}, a double of ${owner.name}`, error);
    }
    suspected.get(os)?.delete(keyOf(owner, of));
  }
}

/**
 * The one resource of the owner: the tagged one; else an untagged twin, which is tagged; else a new one. A new one
 * whose tagging fails is deleted again. After a lost answer to the create it is looked for before the failure counts.
 */
export async function findOrCreate<T extends Resource>(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { of: OwnedKind<T>; create: () => Promise<T> },
): Promise<T> {
  const { of, create } = options;
  const late = looksLeft(os, owner, of) > 0;
  const { tagged, twins } = await findOwned(os, owner, { ...options, alsoTwins: late });
  const keep = tagged.find((one) => of.idle && !of.idle(one)) ?? tagged[0];
  if (keep) {
    if (late) noteLook(os, owner, of);
    const doubles = [...tagged.filter((one) => one !== keep), ...twins];
    await removeDoubles(os, owner, { ...options, doubles });
    return keep;
  }
  if (twins[0]) return await adopt(os, owner, { ...options, twin: twins[0] });
  let made: T;
  try {
    made = await create();
  } catch (error) {
    const failure = failedTo(`create the ${of.called} of ${owner.name}`, error);
    if (!isAmbiguous(error)) throw failure;
    const { twins: [landed], tagged: [marked] } = await findOwned(os, owner, options);
    if (marked) return marked;
    if (!landed) {
      suspected.set(os, (suspected.get(os) ?? new Map()).set(keyOf(owner, of), LATE_LOOKS));
      throw failure;
    }
    return await adopt(os, owner, { ...options, twin: landed });
  }
  return await tagOrDelete(os, owner, { ...options, made });
}

/** Tags what was just made, or deletes it: an untagged one would be made again at each try. */
export async function tagOrDelete<T extends Resource>(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { of: OwnedKind<T>; made: T },
): Promise<T> {
  const { of, made, signal } = options;
  if (!await supportsTags(os, options)) return made;
  try {
    const tags = await addTag(os, of.kind, { id: made.id, tag: owner.tag, ...(signal ? { signal } : {}) });
    return { ...made, tags };
  } catch (error) {
    // Without the caller's signal: when that is what failed, the clean-up must still go out.
    try {
      await remove(os, of.kind, { id: made.id });
    } catch (cause) {
      throw failedTo(
        `delete ${of.called} ${made.id} of ${owner.name}, which could not be tagged (${
          error instanceof Error ? error.message : error
        })`,
        cause,
        "it is adopted by its description at the next try",
      );
    }
    throw failedTo(`tag ${of.called} ${made.id} of ${owner.name} (it was deleted again)`, error);
  }
}

/** Tags a twin. */
export async function adopt<T extends Resource>(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { of: OwnedKind<T>; twin: T },
): Promise<T> {
  const { of, twin, signal } = options;
  try {
    const tags = await addTag(os, of.kind, { id: twin.id, tag: owner.tag, ...(signal ? { signal } : {}) });
    return { ...twin, tags };
  } catch (error) {
    throw failedTo(`adopt ${of.called} ${twin.id} for ${owner.name}`, error);
  }
}

/** Deletes everything of the owner's of this kind, twins too. What is gone already counts as deleted. */
export async function deleteOwned<T extends Resource>(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { of: OwnedKind<T> },
): Promise<{ deleted: string[] }> {
  const { of, signal } = options;
  const { tagged, twins } = await naming(
    `look for each ${of.called} of ${owner.name}`,
    () => findOwned(os, owner, { ...options, alsoTwins: true }),
  );
  const deleted: string[] = [];
  for (const one of [...tagged, ...twins]) {
    try {
      await remove(os, of.kind, { id: one.id, ...(signal ? { signal } : {}) });
    } catch (error) {
      throw failedTo(`delete ${of.called} ${one.id} of ${owner.name}`, error);
    }
    deleted.push(one.id);
  }
  return { deleted: deleted.sort() };
}

function byAge(a: Resource, b: Resource): number {
  return a.created_at.localeCompare(b.created_at) || a.id.localeCompare(b.id);
}
