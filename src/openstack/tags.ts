// Tags of Neutron resources: read, merged and written as a whole, so that other people's tags stay.
import { z } from "zod";
import type { OpenStack } from "./contract.ts";
import { isAmbiguous, isNotFound } from "./errors.ts";
import type { CallOptions, Taggable } from "./neutron.ts";
import { parseBody } from "./pages.ts";

const known = new WeakMap<OpenStack, Promise<boolean>>();

/**
 * True when the cloud can tag security groups, ports and floating IPs. Asked before anything is created, and once per
 * `os`. Some clouds have no tags, and an API gateway that answers 404 to them and perhaps to this question too: that
 * answer counts, but is asked for again, since it can also be a passing fault.
 */
export async function supportsTags(os: OpenStack, options: CallOptions = {}): Promise<boolean> {
  const asked = known.get(os) ?? listExtensions(os, options).then((all) => all.has("standard-attr-tag"));
  known.set(os, asked);
  try {
    return await asked;
  } catch (error) {
    known.delete(os);
    if (isNotFound(error)) return false;
    throw error;
  }
}

interface TagOptions extends CallOptions {
  id: string;
  tag: string;
}

/** Puts `tag` on a resource beside the tags that it has; answers all of them. Done when this returns. */
export async function addTag(os: OpenStack, kind: Taggable, options: TagOptions): Promise<string[]> {
  const { id, tag, ...rest } = options;
  const there = await getTags(os, kind, { id, ...rest });
  if (there.includes(tag)) return there;
  return await write(os, kind, {
    id,
    tags: [...there, tag].sort(),
    done: (tags) => tags.includes(tag),
    ...rest,
  });
}

/** Takes `tag` off a resource and leaves its other tags; answers those. */
export async function dropTag(os: OpenStack, kind: Taggable, options: TagOptions): Promise<string[]> {
  const { id, tag, ...rest } = options;
  const there = await getTags(os, kind, { id, ...rest });
  if (!there.includes(tag)) return there;
  const tags = there.filter((one) => one !== tag);
  return await write(os, kind, { id, tags, done: (now) => !now.includes(tag), ...rest });
}

// Read back after a lost answer. Two writers at once can also mix their lists, so the answer is looked at too.
async function write(
  os: OpenStack,
  kind: Taggable,
  options: CallOptions & { id: string; tags: string[]; done: (tags: string[]) => boolean },
): Promise<string[]> {
  const { done, ...rest } = options;
  let failure: unknown;
  try {
    const tags = await replaceTags(os, kind, rest);
    if (done(tags)) return tags;
    failure = new Error(
      `Cannot tag ${kind} ${rest.id}: the tags are ${tags.join(", ") || "none"} after the write`,
    );
  } catch (error) {
    if (!isAmbiguous(error)) throw error;
    failure = error;
  }
  const { tags: _, ...read } = rest;
  const now = await getTags(os, kind, read);
  if (done(now)) return now;
  throw failure;
}

/** Tags go in the body: in a path, one with a slash answers 404, or is stored as something else. */
async function replaceTags(
  os: OpenStack,
  kind: Taggable,
  options: CallOptions & { id: string; tags: readonly string[] },
): Promise<string[]> {
  const { id, tags, ...rest } = options;
  const call = { service: "network", method: "PUT", path: tagsPath(kind, id) } as const;
  const { body } = await os.request({ ...call, body: { tags }, ...rest });
  return parseBody(body, { ...call, key: "tags", schema: z.array(z.string()) });
}

async function getTags(
  os: OpenStack,
  kind: Taggable,
  options: CallOptions & { id: string },
): Promise<string[]> {
  const { id, ...rest } = options;
  const call = { service: "network", method: "GET", path: tagsPath(kind, id) } as const;
  const { body } = await os.request({ ...call, ...rest });
  return parseBody(body, { ...call, key: "tags", schema: z.array(z.string()) });
}

/** Aliases of the extensions that the cloud has. */
async function listExtensions(os: OpenStack, options: CallOptions): Promise<Set<string>> {
  const call = { service: "network", method: "GET", path: "/v2.0/extensions" } as const;
  const { body } = await os.request({ ...call, ...options });
  const schema = z.array(z.object({ alias: z.string() }));
  return new Set(parseBody(body, { ...call, key: "extensions", schema }).map(({ alias }) => alias));
}

function tagsPath(kind: Taggable, id: string): string {
  return `/v2.0/${kind}/${encodeURIComponent(id)}/tags`;
}
