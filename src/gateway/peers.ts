// Names of peers. A gateway that runs must not be held up because DNS does not answer for a while.
import type { GatewayDeps } from "./context.ts";

type Resolve = GatewayDeps["resolve"];

/** Addresses are remembered for this long after they were last seen, in milliseconds. */
const MEMORY_MS = 24 * 3_600_000;

/**
 * `resolve`, which answers with what it knew last when a name does not resolve now; `told` hears of that. A name that
 * never resolved, or not for a day, is an error.
 */
export function remembering(
  resolve: Resolve,
  options: { readonly now: () => number; readonly told: (host: string, error: unknown) => void },
): Resolve {
  const known = new Map<string, { readonly addresses: readonly string[]; readonly at: number }>();
  return async (host, call) => {
    try {
      const addresses = await resolve(host, call);
      if (addresses.length) known.set(host, { addresses, at: options.now() });
      return addresses;
    } catch (error) {
      const last = known.get(host);
      if (call.signal.aborted || !last || options.now() - last.at > MEMORY_MS) throw error;
      options.told(host, error);
      return last.addresses;
    }
  };
}
