// Numbers inside one gateway pod that need no registry: each follows from a name, so that adding one moves no other.

/** FNV-1a, 32 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value;
}

/** A number in [first, first + count) for each name; names that meet take the next free one, in sorted order. */
export function spread(names: readonly string[], first: number, count: number): Map<string, number> {
  if (names.length > count) throw new RangeError(`Cannot number ${names.length} names from ${count} numbers`);
  const used = new Set<number>();
  const numbers = new Map<string, number>();
  for (const name of [...names].sort()) {
    let offset = hash(name) % count;
    while (used.has(offset)) offset = (offset + 1) % count;
    used.add(offset);
    numbers.set(name, first + offset);
  }
  return numbers;
}

/** The XFRM if_id of each tunnel: unique in the pod's network namespace, never 0, short enough for `ipsec<if_id>`. */
export function tunnelNumbers(tunnels: readonly { readonly name: string }[]): Map<string, number> {
  return spread(tunnels.map((tunnel) => tunnel.name), 1000, 1_000_000);
}

/** The port inside the gateway pod that the Service of each reverse exposure leads to. */
export function reversePorts(exposures: readonly { readonly name: string }[]): Map<string, number> {
  return spread(exposures.map((exposure) => exposure.name), 20_000, 10_000);
}
