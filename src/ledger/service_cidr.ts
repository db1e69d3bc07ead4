// The pool of service CIDRs: which /24 a gateway gets. Pure: the taken ones are read from the objects each time.

/** An IPv4 address as an unsigned number. Throws SyntaxError when it is none. */
export function ipv4ToNumber(address: string): number {
  const parts = address.split(".");
  if (parts.length !== 4 || parts.some((part) => !/^\d{1,3}$/.test(part) || Number(part) > 255)) {
    throw new SyntaxError(`Cannot read ${JSON.stringify(address)} as an IPv4 address`);
  }
  return parts.reduce((sum, part) => sum * 256 + Number(part), 0);
}

/** The dotted form of an unsigned number. */
export function numberToIpv4(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join(".");
}

/** First address and size of an IPv4 CIDR. Throws SyntaxError for anything else, host bits included. */
export function parseCidr(
  cidr: string,
): { readonly first: number; readonly size: number; readonly length: number } {
  const [address = "", length = ""] = cidr.split("/");
  const bits = Number(length);
  if (!/^\d{1,2}$/.test(length) || bits > 32) {
    throw new SyntaxError(`Cannot read ${JSON.stringify(cidr)} as an IPv4 CIDR`);
  }
  const first = ipv4ToNumber(address);
  const size = 2 ** (32 - bits);
  if (first % size !== 0) {
    throw new SyntaxError(
      `Cannot use ${cidr}: the address has host bits; the subnet is ${
        numberToIpv4(first - first % size)
      }/${bits}`,
    );
  }
  return { first, size, length: bits };
}

/** Whether the address lies inside the CIDR. */
export function contains(cidr: string, address: string): boolean {
  const { first, size } = parseCidr(cidr);
  const value = ipv4ToNumber(address);
  return value >= first && value < first + size;
}

/** Whether `inner` lies inside `outer`. */
export function covers(outer: string, inner: string): boolean {
  const a = parseCidr(outer);
  const b = parseCidr(inner);
  return b.first >= a.first && b.first + b.size <= a.first + a.size;
}

/** Whether two CIDRs have an address in common. */
export function overlap(one: string, other: string): boolean {
  return covers(one, other) || covers(other, one);
}

/** How many /24s the pools hold together. */
export function poolSize(pools: readonly string[]): number {
  return pools.reduce((sum, pool) => sum + slots(pool), 0);
}

function slots(pool: string): number {
  const { size, length } = parseCidr(pool);
  if (length > 24) throw new RangeError(`Cannot cut ${pool} into /24s: it is smaller than one`);
  return size / 256;
}

export type Allocation =
  | { readonly cidr: string; readonly problem?: undefined }
  | { readonly cidr?: undefined; readonly problem: string };

/**
 * The /24 for one gateway: the wanted one if it is free and in the pool, else the lowest free one.
 * `taken` maps each /24 in use to the name of its holder.
 */
export function allocateServiceCidr(
  pools: readonly string[],
  taken: ReadonlyMap<string, string>,
  wanted?: string,
): Allocation {
  if (wanted !== undefined) {
    const { first } = parseCidr(wanted);
    const inside = pools.some((pool) => {
      const range = parseCidr(pool);
      return first >= range.first && first + 256 <= range.first + range.size;
    });
    if (!inside) {
      return {
        problem: `${wanted} is not in the service CIDR pool ${
          pools.join(", ")
        }: choose a /24 of it or ask for another pool`,
      };
    }
    const holder = taken.get(wanted);
    return holder === undefined
      ? { cidr: wanted }
      : { problem: `${wanted} is held by ${holder}: choose another or leave spec.serviceCIDR out` };
  }
  for (const pool of pools) {
    const { first } = parseCidr(pool);
    for (let slot = 0; slot < slots(pool); slot++) {
      const cidr = `${numberToIpv4(first + slot * 256)}/24`;
      if (!taken.has(cidr)) return { cidr };
    }
  }
  const total = poolSize(pools);
  return {
    problem: `all ${total} /24s of the service CIDR pool ${
      pools.join(", ")
    } are taken: widen serviceCIDRPool or delete a gateway`,
  };
}

/** The n-th address of a CIDR, from 0. */
export function addressAt(cidr: string, n: number): string {
  return numberToIpv4(parseCidr(cidr).first + n);
}
