/** A section of swanctl.conf: values and sections by name. A value is the text that charon reads, without quoting. */
export type SwanctlSection = ReadonlyMap<string, string | SwanctlSection>;

/** The same as an object literal; a list is joined to one value, `undefined` leaves a name out. */
export interface SwanctlLiteral {
  readonly [name: string]:
    | string
    | number
    | boolean
    | readonly string[]
    | SwanctlSection
    | SwanctlLiteral
    | undefined;
}

/** What a name may not hold (strongSwan, settings_lexer.l): dots are illegal since 5.7.0. */
const NAME = /^[^#{}:.,="\s\0]+$/;

/** Whether `name` can be the name of a section or a key. */
export function isSwanctlName(name: string): boolean {
  return NAME.test(name);
}

/**
 * Joins a list to the one value that swanctl splits at commas again.
 *
 * @throws TypeError an item holds both kinds of quotes, so that neither can protect it
 */
export function joinList(items: readonly string[]): string {
  return items.map((item) => {
    if (/^[^,'"\s]+$/.test(item) || /^[^,'"\s][^,'"]*[^,'"\s]$/.test(item)) return item;
    if (!item.includes('"')) return `"${item}"`;
    if (!item.includes("'")) return `'${item}'`;
    throw new TypeError(
      `Cannot put an item with both kinds of quotes into a list: current value is ${JSON.stringify(item)}`,
    );
  }).join(", ");
}

/** Builds a section from an object literal. Booleans become `yes` and `no`. */
export function swanctlSection(literal: SwanctlLiteral): Map<string, string | SwanctlSection> {
  const result = new Map<string, string | SwanctlSection>();
  for (const [name, value] of Object.entries(literal)) {
    if (value === undefined) continue;
    if (typeof value === "boolean") result.set(name, value ? "yes" : "no");
    else if (typeof value === "string" || typeof value === "number") result.set(name, `${value}`);
    else if (value instanceof Map) result.set(name, value);
    else if (Array.isArray(value)) result.set(name, joinList(value));
    else result.set(name, swanctlSection(value as SwanctlLiteral));
  }
  return result;
}
