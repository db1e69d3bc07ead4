import { ViciError, type ViciSession } from "../vici/contract.ts";
import { listOf, section } from "../vici/message.ts";
import { digestOf } from "./digests.ts";
import type { DesiredKey } from "./desired.ts";

/** What charon holds of our keys: id to a digest of bytes and owners. In memory only. */
export type PushedKeys = Map<string, string>;

/** What one tick found about the keys. */
export interface KeyReport {
  /** Why a key can't be used: unreadable, empty, refused. In words for `lastError`; never a byte of the key. */
  readonly failed: ReadonlyMap<string, string>;
  /** Ids pushed now. */
  readonly pushed: ReadonlySet<string>;
  /** Ids whose bytes or owners are others than before. */
  readonly changed: ReadonlySet<string>;
  /** Ids unloaded now. */
  readonly unloaded: readonly string[];
}

/** The key of a Secret as charon gets it: one trailing newline less. `0x…` and `0s…` are not decoded. */
export function keyBytes(bytes: Uint8Array): Uint8Array {
  return bytes.at(-1) === 0x0a ? bytes.subarray(0, -1) : bytes;
}

/**
 * Brings charon's IKE keys to what is desired: pushes those that changed, those that charon no longer has, and those
 * in `always` (a connection is about to be loaded with them); unloads those of `prefix` that are no longer wanted.
 *
 * A key that has become unreadable keeps the bytes that charon has: taking it away would only cost the tunnel.
 * Rejects only where the session is in trouble.
 */
export async function pushKeys(
  session: ViciSession,
  { keys, pushed, prefix, always }: {
    keys: readonly DesiredKey[];
    pushed: PushedKeys;
    prefix: string;
    always: ReadonlySet<string>;
  },
): Promise<KeyReport> {
  const there = new Set(listOf(await session.call("get-shared"), "keys"));
  const failed = new Map<string, string>(), done = new Set<string>(), changed = new Set<string>();
  for (const key of keys) {
    let bytes: Uint8Array;
    try {
      bytes = keyBytes(await key.read());
    } catch {
      failed.set(key.id, "The pre-shared key is missing: its Secret or the key in it does not exist");
      continue;
    }
    if (bytes.length === 0) {
      failed.set(key.id, "The pre-shared key is empty");
      continue;
    }
    const digest = await digestOf(bytes, ...key.owners.map((owner) => new TextEncoder().encode(owner)));
    const differs = pushed.get(key.id) !== digest;
    if (differs) changed.add(key.id);
    if (!differs && there.has(key.id) && !always.has(key.id)) continue;
    try {
      // Without owners charon would take the key for any peer.
      if (key.owners.length === 0) throw new ViciError("load-shared", "the key has no owners");
      await session.call(
        "load-shared",
        section({ id: key.id, type: "IKE", data: bytes, owners: key.owners }),
      );
      pushed.set(key.id, digest);
      done.add(key.id);
    } catch (error) {
      if (error instanceof RangeError) failed.set(key.id, "The pre-shared key is longer than 65,535 bytes");
      else if (error instanceof ViciError) {
        failed.set(key.id, `charon refuses the pre-shared key: ${error.errmsg}`);
      } else throw error;
    }
  }
  const wanted = new Set(keys.map((key) => key.id));
  const unloaded = [...there].filter((id) => id.startsWith(prefix) && !wanted.has(id)).sort();
  for (const id of unloaded) {
    await session.call("unload-shared", section({ id }));
    pushed.delete(id);
  }
  return { failed, pushed: done, changed, unloaded };
}
