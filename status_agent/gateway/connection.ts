// The few questions that are asked of a load-conn message.
import type { LoadSection } from "../../src/swanctl/translate.ts";

/** The string at `key`; undefined where there is none. */
export function text(section: LoadSection, key: string): string | undefined {
  const value = section.get(key);
  return typeof value === "string" ? value : undefined;
}

/** The strings of the list at `key`. */
export function list(section: LoadSection, key: string): string[] {
  const value = section.get(key);
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : [];
}

/** The section at `key`, if it is one. */
export function section(from: LoadSection, key: string): LoadSection | undefined {
  const value = from.get(key);
  return value instanceof Map ? value : undefined;
}

/** Name and section of each child. */
export function children(connection: LoadSection): [string, LoadSection][] {
  return [...section(connection, "children") ?? []].flatMap(([name, value]) =>
    value instanceof Map ? [[name, value] as [string, LoadSection]] : []
  );
}

/** The ids that the peer may prove, from every `remote…` section; its addresses where there is none. */
export function remoteIds(connection: LoadSection): string[] {
  const ids = [...connection].flatMap(([key, value]) =>
    /^remote(?!_)/i.test(key) && value instanceof Map ? [text(value, "id")] : []
  ).filter((id) => id !== undefined);
  return ids.length ? ids : list(connection, "remote_addrs");
}

/** The message without its if_ids: libipsec's SAs have none, and charon would bind its policies to them. */
export function withoutIfIds(from: LoadSection): LoadSection {
  return new Map(
    [...from].filter(([key]) => !/^if_id_(in|out)$/i.test(key)).map(([key, value]) =>
      [key, value instanceof Map ? withoutIfIds(value) : value] as const
    ),
  );
}
