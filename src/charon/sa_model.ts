/**
 * What a tunnel, its IKE_SA or a child does right now.
 *
 * REKEYING counts as up. ROUTED is an idle trap and no alarm. UNKNOWN: the daemon does not answer.
 */
export type SaState = "DOWN" | "CONNECTING" | "ESTABLISHED" | "REKEYING" | "ROUTED" | "UNKNOWN";

/** One configured child, as the newest of its CHILD_SAs has it. */
export interface ChildState {
  readonly name: string;
  readonly state: SaState;
  /** Bytes of the newest CHILD_SA, which restart at 0 with each rekey. */
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** CHILD_SAs of this name that are installed beyond the one that counts. */
  readonly duplicates: number;
}

/** One configured connection: also one that has no SA at all. */
export interface TunnelState {
  readonly name: string;
  /** The worst of its children; ESTABLISHED only when each of them is up (an idle trap beside them is fine). */
  readonly state: SaState;
  readonly ikeState: SaState;
  readonly children: readonly ChildState[];
  /** Epoch milliseconds of the last change of `state`. */
  readonly since: number;
  /** The peer's address of the newest IKE_SA, also while it connects. */
  readonly peerAddress?: string;
  /** The address of ours that the newest IKE_SA uses. */
  readonly localAddress?: string;
  /** Why it is not up, in a network engineer's words; absent as soon as it is. */
  readonly lastError?: string;
}

/** What the agent knows about one charon after a tick. */
export interface DaemonState {
  /** Whether charon answers over VICI. While it does not, every tunnel is UNKNOWN. */
  readonly connected: boolean;
  /** Why not. */
  readonly error?: string;
  /** charon's version, as of the last connection. */
  readonly version?: string;
  /** Counts the daemon lives seen by this process: 1 for the first connection. */
  readonly life: number;
  /** One per desired connection, sorted by name. */
  readonly tunnels: readonly TunnelState[];
  /** Epoch milliseconds of this reading. */
  readonly at: number;
}
