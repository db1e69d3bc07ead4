import type { SwanctlSection } from "./model.ts";

/** A `load-conn` message, in the terms of VICI: strings, bytes, lists and sections. */
export type LoadSection = ReadonlyMap<string, string | readonly (string | Uint8Array)[] | LoadSection>;

/** One connection, ready for `load-conn`. */
export interface LoadConnection {
  readonly name: string;
  /** What stands below the name. */
  readonly message: LoadSection;
}

/** Where certificates come from. */
export interface TranslateOptions {
  /** The bytes of a certificate or public key that is named by `certs`, `cacerts` or `pubkeys`. */
  readonly readFile?: (key: string, file: string) => Uint8Array;
}

/** Keys that VICI takes as lists (strongSwan, src/swanctl/commands/load_conns.c). */
const LISTS = new Set([
  "local_addrs",
  "remote_addrs",
  "proposals",
  "esp_proposals",
  "ah_proposals",
  "local_ts",
  "remote_ts",
  "vips",
  "pools",
  "groups",
  "cert_policy",
]);
const FILES = new Set(["certs", "cacerts", "pubkeys"]);

/** Splits at commas; blanks around an item and empty items vanish, and an item may stand in quotes. */
export function splitList(value: string): string[] {
  const items: string[] = [];
  for (const match of value.matchAll(/\s*(?:"([^"]*)"|'([^']*)'|([^,]+))\s*(?:,|$)/g)) {
    const item = match[1] ?? match[2] ?? match[3]?.trim() ?? "";
    if (item !== "") items.push(item);
  }
  return items;
}

function literalBytes(text: string): Uint8Array | undefined {
  if (/^0x(?:[0-9a-f]{2})*$/i.test(text)) {
    return Uint8Array.from(text.slice(2).match(/../g) ?? [], (pair) => parseInt(pair, 16));
  }
  if (!/^0s[A-Za-z0-9+/=]*$/i.test(text)) return undefined;
  return Uint8Array.from(atob(text.slice(2)), (char) => char.charCodeAt(0));
}

function translate(from: SwanctlSection, options: TranslateOptions): LoadSection {
  const result = new Map<string, string | readonly (string | Uint8Array)[] | LoadSection>();
  for (const [name, value] of from) {
    const key = name.toLowerCase();
    if (typeof value !== "string") result.set(name, translate(value, options));
    else if (LISTS.has(key)) result.set(name, splitList(value));
    else if (FILES.has(key)) {
      result.set(
        name,
        splitList(value).map((item) => {
          const bytes = literalBytes(item) ?? options.readFile?.(key, item);
          if (bytes === undefined) {
            throw new TypeError(`Cannot read a file for ${name}: current value is ${item}`);
          }
          return bytes;
        }),
      );
    } else result.set(name, value);
  }
  return result;
}

/**
 * The `load-conn` messages of a parsed file, one per connection, as `swanctl --load-conns` would send them.
 *
 * @throws TypeError a connection is no section, or names a certificate that can't be read
 */
export function translateConnections(
  config: SwanctlSection,
  options: TranslateOptions = {},
): LoadConnection[] {
  const connections = config.get("connections");
  if (connections === undefined) return [];
  if (typeof connections === "string") throw new TypeError("Cannot load connections: it is no section");
  return [...connections].map(([name, value]) => {
    if (typeof value === "string") throw new TypeError(`Cannot load connection ${name}: it is no section`);
    return { name, message: translate(value, options) };
  });
}
