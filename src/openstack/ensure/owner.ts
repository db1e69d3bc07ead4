/** Whose a resource is. `tag` and `name` are unique to the owner. */
export interface Owner {
  /** Neutron tag of everything that is the owner's, as `KEY=VALUE`. */
  tag: string;
  /** Name of everything that is created, and the owner's name in errors. */
  name: string;
  /** Says in words whose it is. The tag is put behind it, so that the two together are a marker of their own. */
  description: string;
}

/** Neutron's limit for a description. */
const DESCRIPTION_MAX = 255;

/**
 * The description of everything that is created for `owner`: its own, with the tag in brackets. That makes a resource
 * findable where tagging failed or the cloud has no tags.
 */
export function markedDescription(owner: Owner): string {
  const mark = ` [${owner.tag}]`;
  return owner.description.slice(0, DESCRIPTION_MAX - mark.length) + mark;
}

/** The part of a tag that says what it is about: "a/b=" of "a/b=c". */
export function tagKey(tag: string): string {
  return tag.slice(0, tag.indexOf("=") + 1);
}
