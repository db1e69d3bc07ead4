// IPv4 subnets as the data plane needs them: read from traffic selectors, merged, compared, written.

/** A range of IPv4 addresses, both ends included, as numbers of 32 bits. */
export interface Range {
  readonly first: number;
  readonly last: number;
}

/** An IPv4 address as a number of 32 bits, or undefined when `text` is none. */
export function parseAddress(text: string): number | undefined {
  const parts = text.split(".");
  if (parts.length !== 4) return undefined;
  let value = 0;
  for (const part of parts) {
    if (!/^\d{1,3}$/.test(part) || Number(part) > 255) return undefined;
    value = value * 256 + Number(part);
  }
  return value;
}

/** "10.0.0.1" of a number of 32 bits. */
export function formatAddress(value: number): string {
  return [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255].join(".");
}

/** The range of "10.0.0.0/8", "10.0.0.1" or "10.0.0.1-10.0.0.9"; undefined when `text` is none of these. */
export function parseRange(text: string): Range | undefined {
  const dash = text.indexOf("-");
  if (dash >= 0) {
    const first = parseAddress(text.slice(0, dash).trim());
    const last = parseAddress(text.slice(dash + 1).trim());
    return first === undefined || last === undefined || first > last ? undefined : { first, last };
  }
  const [address = "", length = "32"] = text.split("/");
  const value = parseAddress(address);
  if (value === undefined || !/^\d{1,2}$/.test(length) || Number(length) > 32) return undefined;
  const size = 2 ** (32 - Number(length));
  const first = value - value % size;
  return { first, last: first + size - 1 };
}

/**
 * The subnet part of a traffic selector of swanctl.conf: "10.0.0.0/8[tcp/80]" gives the range of 10.0.0.0/8.
 * undefined for `dynamic` and for IPv6, which the data plane does not carry (its fence drops it).
 */
export function selectorRange(selector: string): Range | undefined {
  return parseRange(selector.replace(/\[.*\]\s*$/, "").trim());
}

/** Overlapping and adjacent ranges joined, sorted. */
export function mergeRanges(ranges: readonly Range[]): Range[] {
  const merged: Range[] = [];
  for (const range of [...ranges].sort((a, b) => a.first - b.first || a.last - b.last)) {
    const before = merged.at(-1);
    if (before && range.first <= before.last + 1) {
      merged[merged.length - 1] = { first: before.first, last: Math.max(before.last, range.last) };
    } else merged.push(range);
  }
  return merged;
}

/** The fewest CIDRs that cover exactly these ranges, sorted: what `ip` and `nft` take. */
export function toCidrs(ranges: readonly Range[]): string[] {
  const cidrs: string[] = [];
  for (const { first, last } of mergeRanges(ranges)) {
    for (let at = first; at <= last;) {
      let size = at === 0 ? 2 ** 32 : 2 ** trailingZeros(at);
      while (at + size - 1 > last) size /= 2;
      cidrs.push(`${formatAddress(at)}/${32 - Math.log2(size)}`);
      at += size;
    }
  }
  return cidrs;
}

function trailingZeros(value: number): number {
  let zeros = 0;
  while (value % 2 ** (zeros + 1) === 0) zeros++;
  return zeros;
}

/** Whether the range holds the address. */
export function holds({ first, last }: Range, address: string): boolean {
  const value = parseAddress(address);
  return value !== undefined && value >= first && value <= last;
}
