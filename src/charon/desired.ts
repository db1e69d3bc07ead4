import type { ViciSection } from "../vici/message.ts";

/** What charon or the agent does with a child that is not up. */
export type StartAction = "start" | "trap" | "none";

/** One CHILD_SA configuration of a connection. */
export interface DesiredChild {
  readonly name: string;
  readonly startAction: StartAction;
}

/** One connection that charon has to hold. Its name is the tunnel's name. */
export interface DesiredConnection {
  readonly name: string;
  /** The body of `load-conn` below the name, as `translateConnections()` of src/swanctl gives it. */
  readonly message: ViciSection;
  readonly children: readonly DesiredChild[];
  /** The id of the key that it authenticates with; while that key is missing the connection is not loaded. */
  readonly keyId?: string;
}

/** One IKE pre-shared key. */
export interface DesiredKey {
  /** Stable VICI id, so that a later push replaces the entry: `ipsec.bnerd.net/<gateway>[/<tunnel>]`. */
  readonly id: string;
  /** Peer ids only (plus peer addresses for IKEv1): a key that also names the local id authenticates any peer. */
  readonly owners: readonly string[];
  /** The bytes as in the Secret; one trailing newline is cut by us. A rejection says that the key is missing. */
  read(): Promise<Uint8Array>;
}

/** Everything that one charon has to hold. It is ours alone: what is not named here is unloaded. */
export interface Desired {
  readonly connections: readonly DesiredConnection[];
  readonly keys: readonly DesiredKey[];
  /** The prefix of the key ids that are ours to unload, e.g. `ipsec.bnerd.net/`. */
  readonly keyPrefix: string;
}

/** The start action of one child section: `start` wins over `trap` (`trap|start` is both). */
export function startActionOf(value: string | undefined): StartAction {
  const words = (value ?? "none").toLowerCase().split("|").map((word) => word.trim());
  if (words.includes("start") || words.includes("restart")) return "start";
  if (words.includes("trap") || words.includes("route")) return "trap";
  return "none";
}
