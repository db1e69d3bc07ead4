import { encodeMessage, sectionOf, sectionsOf, type ViciSection } from "../vici/message.ts";
import type { DesiredConnection } from "./desired.ts";

/** What of one connection was loaded, in parts, so that a change tells which SAs it makes stale. Holds no key. */
export interface ConnectionDigest {
  /** Everything but the children. */
  readonly ike: string;
  /** The same without what charon does not compare on a reload (5.9.8, peer_cfg.equals and ike_cfg.equals). */
  readonly core: string;
  /** The same as `ike` without the peer's addresses. */
  readonly unaddressed: string;
  readonly children: Readonly<Record<string, string>>;
}

/** charon would keep the old value of these when nothing else changes. */
const NOT_COMPARED = ["dpd_timeout", "dscp"];

/** sha256 of the parts, each with its length in front, in hex. */
export async function digestOf(...parts: readonly Uint8Array[]): Promise<string> {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + 4 + part.length, 0));
  let at = 0;
  for (const part of parts) {
    new DataView(all.buffer).setUint32(at, part.length);
    all.set(part, at + 4);
    at += 4 + part.length;
  }
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", all));
  all.fill(0);
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The digest of a connection's `load-conn` message. */
export async function digestConnection({ message }: DesiredConnection): Promise<ConnectionDigest> {
  const without = (...names: string[]): ViciSection =>
    new Map([...message].filter(([name]) => !names.includes(name)));
  const children: Record<string, string> = {};
  for (const [name, child] of sectionsOf(sectionOf(message, "children"))) {
    children[name] = await digestOf(encodeMessage(child));
  }
  return {
    ike: await digestOf(encodeMessage(without("children"))),
    core: await digestOf(encodeMessage(without("children", ...NOT_COMPARED))),
    unaddressed: await digestOf(encodeMessage(without("children", "remote_addrs"))),
    children,
  };
}

/** Whether two digests stand for the same configuration. */
export function sameDigest(a: ConnectionDigest | undefined, b: ConnectionDigest): boolean {
  const names = Object.keys(b.children);
  return a !== undefined && a.ike === b.ike && names.length === Object.keys(a.children).length &&
    names.every((name) => a.children[name] === b.children[name]);
}

/** What was loaded into one daemon. */
export interface DigestFile {
  /** The daemon: its socket's inode and time, see `socketIdentity()`. */
  readonly socket: string;
  readonly connections: Readonly<Record<string, ConnectionDigest>>;
  /** SAs that are to be terminated, see `Doomed`: a restart of ours must not forget them. */
  readonly doomed: readonly string[];
}

/** The same as it is worked with. */
export interface Digests {
  readonly connections: Map<string, ConnectionDigest>;
  readonly doomed: Set<string>;
}

/** Tells one life of the daemon from another: charon makes a new socket at each start. Undefined: there is none. */
export async function socketIdentity(path: string): Promise<string | undefined> {
  try {
    const { dev, ino, mtime } = await Deno.stat(path);
    return `${dev}:${ino}:${mtime?.getTime() ?? 0}`;
  } catch {
    return undefined;
  }
}

/** What was loaded into the daemon behind `socket`; empty where it is another daemon, or the file can't be read. */
export async function readDigests(path: string, socket: string): Promise<Digests> {
  try {
    const file = JSON.parse(await Deno.readTextFile(path)) as Partial<DigestFile>;
    const valid = (entry: [string, ConnectionDigest]): boolean =>
      [entry[1]?.ike, entry[1]?.core, entry[1]?.unaddressed].every((part) => typeof part === "string") &&
      typeof entry[1].children === "object";
    if (file.socket === socket && typeof file.connections === "object" && Array.isArray(file.doomed)) {
      return {
        connections: new Map(Object.entries(file.connections).filter(valid)),
        doomed: new Set(file.doomed.filter((key) => /^(?:ike|child):\d+$/.test(key))),
      };
    }
  } catch { /* not there, or not ours: everything is loaded again */ }
  return { connections: new Map(), doomed: new Set() };
}

/** Writes the digests as a whole: a reader sees the old file or the new one. */
export async function writeDigests(
  path: string,
  socket: string,
  { connections, doomed }: {
    connections: ReadonlyMap<string, ConnectionDigest>;
    doomed: Iterable<string>;
  },
): Promise<void> {
  const sorted = [...connections].sort(([a], [b]) => a < b ? -1 : 1);
  const file: DigestFile = { socket, connections: Object.fromEntries(sorted), doomed: [...doomed].sort() };
  await Deno.writeTextFile(`${path}.new`, JSON.stringify(file));
  await Deno.rename(`${path}.new`, path);
}
