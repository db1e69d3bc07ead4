/** Addresses to listen at. */

export interface ListenAddress {
  hostname: string;
  port: number;
}

/**
 * Reads ":8080" (all addresses), "127.0.0.1:0" (any free port), "[::1]:8080".
 *
 * @throws SyntaxError when it is none of these.
 */
export function parseAddress(text: string): ListenAddress {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (!match || port > 65_535) {
    throw new SyntaxError(
      `Cannot listen at ${JSON.stringify(text)}: it is not of the form :PORT or HOST:PORT`,
    );
  }
  // "::" takes IPv4 as well where there is IPv6, but not every node has IPv6: "0.0.0.0" is what always works.
  return { hostname: match[1] ?? (match[2] || "0.0.0.0"), port };
}
