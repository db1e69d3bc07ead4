import type { ViciSection } from "./message.ts";

/** charon refused a command: `success=no`, or it does not know it. */
export class ViciError extends Error {
  override readonly name = "ViciError";
  /** The command, e.g. `load-conn`. */
  readonly command: string;
  /** What charon said. */
  readonly errmsg: string;
  /** The whole answer: `terminate` and `rekey` also give `matches`. */
  readonly response: ViciSection;

  constructor(command: string, errmsg: string, response: ViciSection = new Map()) {
    super(`Cannot ${command}: charon says ${errmsg}`);
    this.command = command;
    this.errmsg = errmsg;
    this.response = response;
  }
}

/** How `connectVici()` reaches the daemon. */
export interface ViciOptions {
  /** The unix socket, e.g. `/run/ipsec/charon.vici`. */
  readonly path: string;
  /** Closes the session when it aborts. */
  readonly signal?: AbortSignal;
  /** Deadline of a call that names none. Default 10,000. */
  readonly timeoutMs?: number;
  /** How many unread events a subscription holds before the session gives up. Default 100,000. */
  readonly maxUnread?: number;
  /** Replaces `Deno.connect`. */
  readonly connect?: (path: string) => Promise<ViciConnection>;
}

/** What a session needs of a connection. */
export interface ViciConnection {
  read(into: Uint8Array): Promise<number | null>;
  write(bytes: Uint8Array): Promise<number>;
  close(): void;
}

/** The deadline of one call. */
export interface CallOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** An event of a subscription. */
export interface ViciEvent {
  readonly name: string;
  readonly message: ViciSection;
}

/** Events as they come; ends when the session does. Leaving the loop, or `return()`, unsubscribes. */
export interface ViciSubscription extends AsyncIterableIterator<ViciEvent>, AsyncDisposable {
  return(): Promise<IteratorResult<ViciEvent>>;
}

/** One connection to charon: one life of the daemon. */
export interface ViciSession extends AsyncDisposable {
  /** Resolves when the session has ended, with the reason; never rejects. */
  readonly closed: Promise<Error>;
  /** Whether it has ended. */
  readonly ended: boolean;
  /**
   * Sends a command and gives its answer. Calls queue: charon executes one request per connection at a time.
   *
   * @throws ViciError charon refused; DOMException TimeoutError no answer within the deadline (waiting in the queue
   *   included; the answer is then awaited and thrown away before the next request goes out); RangeError or
   *   TypeError the message can't be encoded; Error the session has ended
   */
  call(command: string, message?: ViciSection, options?: CallOptions): Promise<ViciSection>;
  /**
   * Sends a command whose result comes as events (`list-sas` and its `list-sa`) and gives them one by one.
   * Throws as `call()` does.
   */
  stream(
    command: string,
    event: string,
    message?: ViciSection,
    options?: CallOptions,
  ): AsyncIterableIterator<ViciSection>;
  /** Subscribes; resolves when charon has confirmed each event. Throws ViciError for an event that it does not know. */
  events(...names: string[]): Promise<ViciSubscription>;
  close(reason?: Error): void;
}
