import {
  type CallOptions,
  type ViciConnection,
  ViciError,
  type ViciEvent,
  type ViciOptions,
  type ViciSession,
  type ViciSubscription,
} from "./contract.ts";
import type { ViciSection } from "./message.ts";
import { Unread } from "./unread.ts";
import { encodePacket, PACKET, type Packet, PacketBuffer } from "./wire.ts";

interface Pending {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly what: string;
  /** Events that belong to this request while it is in flight. */
  readonly event?: string;
  readonly onEvent?: (message: ViciSection) => void;
  settle: ((answer: Packet | Error) => void) | undefined;
}

interface Subscriber {
  readonly names: ReadonlySet<string>;
  readonly unread: Unread<ViciEvent>;
}

/**
 * Connects to charon.
 *
 * @throws Deno.errors.NotFound or ConnectionRefused where no daemon listens
 */
export async function connectVici(options: ViciOptions): Promise<ViciSession> {
  options.signal?.throwIfAborted();
  const connect = options.connect ?? ((path: string) => Deno.connect({ transport: "unix", path }));
  const connection = await connect(options.path);
  const session = new Session(connection, options);
  if (options.signal?.aborted) session.close(new DOMException("Aborted while connecting", "AbortError"));
  return session;
}

class Session implements ViciSession {
  readonly closed: Promise<Error>;
  readonly #connection: ViciConnection;
  readonly #timeoutMs: number;
  readonly #maxUnread: number;
  readonly #signal: AbortSignal | undefined;
  readonly #waiting: Pending[] = [];
  readonly #subscribers = new Set<Subscriber>();
  readonly #registered = new Map<string, { users: number; readonly confirmed: Promise<void> }>();
  #flying: Pending | undefined;
  #resolveClosed!: (reason: Error) => void;
  #reason: Error | undefined;

  constructor(connection: ViciConnection, options: ViciOptions) {
    this.#connection = connection;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#maxUnread = options.maxUnread ?? 100_000;
    this.#signal = options.signal;
    this.closed = new Promise((resolve) => this.#resolveClosed = resolve);
    this.#signal?.addEventListener("abort", this.#onAbort);
    void this.#readAll();
  }

  readonly #onAbort = (): void =>
    this.close(new DOMException("The session's signal was aborted", "AbortError"));

  get ended(): boolean {
    return this.#reason !== undefined;
  }

  close(reason: Error = new Error("The VICI session was closed")): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    try {
      this.#connection.close();
    } catch { /* it was closed by the other side */ }
    const open = this.#flying === undefined ? this.#waiting : [this.#flying, ...this.#waiting];
    for (const pending of open) pending.settle?.(reason);
    this.#waiting.length = 0;
    this.#flying = undefined;
    for (const subscriber of this.#subscribers) subscriber.unread.end();
    this.#resolveClosed(reason);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  async #readAll(): Promise<void> {
    const buffer = new PacketBuffer();
    try {
      while (this.#reason === undefined) {
        const count = await this.#connection.read(buffer.room());
        if (count === null) {
          throw new Error(
            buffer.pending > 0
              ? `charon closed the connection inside a packet, after ${buffer.pending} bytes`
              : "charon closed the connection",
          );
        }
        buffer.filled(count);
        for (let packet = buffer.take(); packet !== undefined; packet = buffer.take()) this.#dispatch(packet);
      }
    } catch (cause) {
      this.close(cause instanceof Error ? cause : new Error(String(cause)));
    }
  }

  #dispatch(packet: Packet): void {
    if (packet.type === PACKET.event) {
      const flying = this.#flying;
      if (flying?.event === packet.name) flying.onEvent?.(packet.message);
      for (const subscriber of this.#subscribers) {
        if (subscriber.names.has(packet.name)) subscriber.unread.push(packet);
      }
      return;
    }
    const flying = this.#flying;
    if (
      flying === undefined || packet.type === PACKET.commandRequest || packet.type === PACKET.eventRegister ||
      packet.type === PACKET.eventUnregister
    ) {
      throw new SyntaxError(`Cannot place a VICI packet of type ${packet.type}: nothing asked for it`);
    }
    this.#flying = undefined;
    flying.settle?.(packet);
    this.#sendNext();
  }

  #sendNext(): void {
    while (this.#flying === undefined) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      if (next.settle === undefined) continue; // gave up while it waited
      this.#flying = next;
      void this.#write(next.bytes);
    }
  }

  async #write(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    try {
      for (let at = 0; at < bytes.length;) at += await this.#connection.write(bytes.subarray(at));
    } catch (cause) {
      this.close(cause instanceof Error ? cause : new Error(String(cause)));
    }
  }

  /** Queues one packet and gives the packet that answers it. */
  #ask(
    what: string,
    bytes: Uint8Array<ArrayBuffer>,
    options: CallOptions,
    event?: string,
    onEvent?: (message: ViciSection) => void,
  ): Promise<Packet> {
    if (this.#reason !== undefined) {
      return Promise.reject(new Error(`Cannot ${what}: the VICI session has ended`, { cause: this.#reason }));
    }
    if (options.signal?.aborted) return Promise.reject(options.signal.reason);
    return new Promise((resolve, reject) => {
      const timeoutMs = options.timeoutMs ?? this.#timeoutMs;
      const pending: Pending = {
        bytes,
        what,
        ...(event === undefined ? {} : { event }),
        ...(onEvent === undefined ? {} : { onEvent: (message) => pending.settle && onEvent(message) }),
        settle: (answer) => {
          pending.settle = undefined;
          clearTimeout(timer);
          options.signal?.removeEventListener("abort", onAbort);
          if (answer instanceof Error) {
            reject(
              answer instanceof DOMException
                ? answer
                : new Error(`Cannot ${what}: the VICI session has ended`, { cause: answer }),
            );
          } else resolve(answer);
        },
      };
      // The request stays in flight: its answer has to be taken off the wire before the next one is sent.
      const timer = timeoutMs === Infinity
        ? undefined
        : setTimeout(() => pending.settle?.(lateness(what, timeoutMs)), timeoutMs);
      const onAbort = (): void => {
        pending.settle?.(new DOMException(`Cannot ${what}: the call was aborted`, "AbortError"));
      };
      options.signal?.addEventListener("abort", onAbort);
      this.#waiting.push(pending);
      this.#sendNext();
    });
  }

  async call(
    command: string,
    message: ViciSection = new Map(),
    options: CallOptions = {},
  ): Promise<ViciSection> {
    return answerOf(
      command,
      await this.#ask(command, encodePacket(PACKET.commandRequest, command, message), options),
    );
  }

  async *stream(
    command: string,
    event: string,
    message: ViciSection = new Map(),
    options: CallOptions = {},
  ): AsyncIterableIterator<ViciSection> {
    const bytes = encodePacket(PACKET.commandRequest, command, message);
    const unread = new Unread<ViciSection>(this.#maxUnread, (reason) => this.close(reason));
    await this.#register(event, options);
    try {
      const outcome = this.#ask(command, bytes, options, event, (item) => unread.push(item))
        .then((packet) => answerOf(command, packet)).then(() => undefined, (error: unknown) => ({ error }))
        .finally(() => unread.end());
      while (true) {
        const batch = await unread.takeAll();
        if (batch === undefined) break;
        yield* batch;
      }
      const failure = await outcome;
      if (failure !== undefined) throw failure.error;
    } finally {
      this.#unregister(event);
    }
  }

  async events(...names: string[]): Promise<ViciSubscription> {
    const wanted = [...new Set(names)].sort();
    const registered: string[] = [];
    const unread = new Unread<ViciEvent>(this.#maxUnread, (reason) => this.close(reason));
    const subscriber: Subscriber = { names: new Set(wanted), unread };
    // Before the registration, since charon may send the first event ahead of anybody's next turn.
    this.#subscribers.add(subscriber);
    const stop = (): Promise<void> => {
      unread.end();
      this.#subscribers.delete(subscriber);
      for (const name of registered.splice(0)) this.#unregister(name);
      return Promise.resolve();
    };
    try {
      for (const name of wanted) {
        await this.#register(name, {});
        registered.push(name);
      }
    } catch (error) {
      await stop();
      throw error;
    }
    const subscription: ViciSubscription = {
      [Symbol.asyncIterator]: () => subscription,
      async next(): Promise<IteratorResult<ViciEvent>> {
        const event = await unread.take();
        return event === undefined ? { done: true, value: undefined } : { done: false, value: event };
      },
      async return(): Promise<IteratorResult<ViciEvent>> {
        await stop();
        return { done: true, value: undefined };
      },
      [Symbol.asyncDispose]: stop,
    };
    return subscription;
  }

  /**
   * charon delivers an event once per registration, so each name is registered once and its users are counted.
   * The packet itself has no deadline: whether charon has carried it out is never in doubt.
   */
  async #register(event: string, options: CallOptions): Promise<void> {
    let entry = this.#registered.get(event);
    if (entry === undefined) {
      const what = `register ${event}`;
      const confirmed = this.#ask(what, encodePacket(PACKET.eventRegister, event), { timeoutMs: Infinity })
        .then((answer) => {
          if (answer.type === PACKET.eventConfirm) return;
          this.#registered.delete(event);
          throw new ViciError(what, "unknown event");
        });
      confirmed.catch(() => {});
      entry = { users: 0, confirmed };
      this.#registered.set(event, entry);
    }
    entry.users++;
    const timeoutMs = options.timeoutMs ?? this.#timeoutMs;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) =>
      timer = setTimeout(() => reject(lateness(`register ${event}`, timeoutMs)), timeoutMs)
    );
    try {
      await Promise.race([entry.confirmed, late]);
    } catch (error) {
      this.#unregister(event);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #unregister(event: string): void {
    const entry = this.#registered.get(event);
    if (entry === undefined || --entry.users > 0) return;
    this.#registered.delete(event);
    if (this.ended) return;
    this.#ask(`unregister ${event}`, encodePacket(PACKET.eventUnregister, event), { timeoutMs: Infinity })
      .catch(() => {});
  }
}

function lateness(what: string, timeoutMs: number): DOMException {
  return new DOMException(`Cannot ${what}: no answer within ${timeoutMs} ms`, "TimeoutError");
}

function answerOf(command: string, packet: Packet): ViciSection {
  if (packet.type === PACKET.commandUnknown) throw new ViciError(command, "unknown command");
  if (packet.type !== PACKET.commandResponse) {
    throw new SyntaxError(`Cannot ${command}: the answer is a packet of type ${packet.type}`);
  }
  // An answer without `success` (list-*, version, get-*) is none of failure.
  if (packet.message.get("success") === "no") {
    const errmsg = packet.message.get("errmsg");
    throw new ViciError(
      command,
      typeof errmsg === "string" && errmsg !== "" ? errmsg : "no reason",
      packet.message,
    );
  }
  return packet.message;
}
