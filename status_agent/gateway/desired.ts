// What charon has to hold for this gateway: its connections, and the keys with their owners.
import {
  type Desired,
  type DesiredConnection,
  type DesiredKey,
  startActionOf,
} from "../../src/charon/desired.ts";
import type { Driver } from "../../src/dataplane/network.ts";
import type { LoadSection } from "../../src/swanctl/translate.ts";
import type { GatewayConfig } from "./config.ts";
import { children, list, remoteIds, text, withoutIfIds } from "./connection.ts";

/** Prefix of every key that is ours. */
export const KEY_PREFIX = "ipsec.bnerd.net/";

/** An owner that stands for any peer: never ours, a key must name whom it is for. */
const ANY = new Set(["", "%any", "%any4", "%any6", "0.0.0.0", "*", "::", "0.0.0.0/0", "::/0"]);

/**
 * Whom a tunnel's key is for: the peer's ids, and with IKEv1 its addresses too, since a main-mode responder looks the
 * key up before it knows the id. Never the local id: with it the key would authenticate any peer.
 */
export function ownersOf(connection: LoadSection): string[] {
  const version = text(connection, "version") ?? "0";
  const addresses = version === "2" ? [] : list(connection, "remote_addrs");
  return [...new Set([...remoteIds(connection), ...addresses])].filter((owner) => !ANY.has(owner)).sort();
}

/**
 * Everything that charon has to hold. The shared key's owners leave out tunnels with a key of their own.
 * `readKey` gives the bytes of a key file, and rejects when there is none.
 */
export function desiredOf(
  { agent, connections }: GatewayConfig,
  { driver, readKey }: {
    readonly driver: Driver;
    readonly readKey: (key: string) => Promise<Uint8Array>;
  },
): Desired {
  const shared = `${KEY_PREFIX}${agent.gateway}`;
  const ownKeys = new Map(agent.tunnels.map(({ name, pskKey }) => [name, pskKey]));
  const sharedOwners = new Set<string>();
  const keys: DesiredKey[] = [];
  const desired: DesiredConnection[] = [];
  for (const { name, message } of connections) {
    const owners = ownersOf(message);
    const own = ownKeys.get(name);
    if (own !== undefined) keys.push({ id: `${shared}/${name}`, owners, read: () => readKey(own) });
    else for (const owner of owners) sharedOwners.add(owner);
    desired.push({
      name,
      message: driver === "libipsec" ? withoutIfIds(message) : message,
      children: children(message).map(([child, section]) => ({
        name: child,
        startAction: startActionOf(text(section, "start_action")),
      })),
      keyId: own === undefined ? shared : `${shared}/${name}`,
    });
  }
  if (sharedOwners.size) {
    keys.unshift({ id: shared, owners: [...sharedOwners].sort(), read: () => readKey(agent.psk.key) });
  }
  return { connections: desired, keys, keyPrefix: KEY_PREFIX };
}
