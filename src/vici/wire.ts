import { decodeMessage, encodeMessage, MESSAGE_SIZE_MAX, type ViciSection } from "./message.ts";

/** Packet types of the VICI protocol (strongSwan, src/libcharon/plugins/vici/vici_dispatcher.h). */
export const PACKET = {
  commandRequest: 0,
  commandResponse: 1,
  commandUnknown: 2,
  eventRegister: 3,
  eventUnregister: 4,
  eventConfirm: 5,
  eventUnknown: 6,
  event: 7,
} as const;

/** One decoded packet. Requests, (un)registrations and events have a name; requests, responses and events a message. */
export interface Packet {
  readonly type: number;
  readonly name: string;
  readonly message: ViciSection;
}

const EMPTY: ViciSection = new Map();
const named = (type: number): boolean =>
  type === PACKET.commandRequest || type === PACKET.event || type === PACKET.eventRegister ||
  type === PACKET.eventUnregister;
const carries = (type: number): boolean =>
  type === PACKET.commandRequest || type === PACKET.commandResponse || type === PACKET.event;

/**
 * Encodes one packet with its four bytes of length in front.
 *
 * @throws RangeError the packet is larger than charon takes (it would drop the connection), or a name is too long;
 *   TypeError a name is not printable ASCII
 */
export function encodePacket(type: number, name?: string, message?: ViciSection): Uint8Array<ArrayBuffer> {
  const body = message === undefined ? new Uint8Array(0) : encodeMessage(message);
  const title = name ?? "";
  if (named(type) && !/^[\x20-\x7e]{1,255}$/.test(title)) {
    throw new TypeError(
      `Cannot encode a VICI packet without a printable name: current value is ${JSON.stringify(title)}`,
    );
  }
  const head = named(type) ? 2 + title.length : 1;
  const length = head + body.length;
  if (length > MESSAGE_SIZE_MAX) {
    throw new RangeError(
      `Cannot send ${title} larger than ${MESSAGE_SIZE_MAX} bytes: current size is ${length}`,
    );
  }
  const packet = new Uint8Array(4 + length);
  new DataView(packet.buffer).setUint32(0, length);
  packet[4] = type;
  if (named(type)) {
    packet[5] = title.length;
    for (let i = 0; i < title.length; i++) packet[6 + i] = title.charCodeAt(i);
  }
  packet.set(body, 4 + head);
  return packet;
}

/**
 * Decodes the packet between `start` and `end` of `bytes` (without its length).
 *
 * @throws SyntaxError unknown type, or a broken name or message
 */
export function decodePacket(bytes: Uint8Array, start = 0, end = bytes.length): Packet {
  if (start >= end) throw new SyntaxError("Cannot decode a VICI packet: it is empty");
  const type = bytes[start]!;
  if (type > PACKET.event) throw new SyntaxError(`Cannot decode a VICI packet: unknown type ${type}`);
  let at = start + 1, name = "";
  if (named(type)) {
    const length = at < end ? bytes[at]! : 0;
    if (length === 0 || at + 1 + length > end) {
      throw new SyntaxError("Cannot decode a VICI packet: broken name");
    }
    for (let i = at + 1; i <= at + length; i++) name += String.fromCharCode(bytes[i]!);
    at += 1 + length;
  }
  if (carries(type)) return { type, name, message: decodeMessage(bytes, at, end) };
  if (at !== end) {
    throw new SyntaxError(`Cannot decode a VICI packet: ${end - at} bytes after a packet of type ${type}`);
  }
  return { type, name, message: EMPTY };
}

/** Room for one read: charon's socket buffer holds some 200 KiB. */
const READ_SIZE = 256 * 1024;

/**
 * Puts packets together from reads of any size. One buffer is used again and again: what `take()` hands out is
 * valid until the next call.
 */
export class PacketBuffer {
  #bytes: Uint8Array<ArrayBuffer>;
  #start = 0;
  #end = 0;

  constructor(readSize: number = READ_SIZE) {
    this.#bytes = new Uint8Array(readSize);
  }

  /** Where the next read goes: never empty. */
  room(): Uint8Array<ArrayBuffer> {
    if (this.#start === this.#end) this.#start = this.#end = 0;
    else if (this.#start > 0) {
      this.#bytes.copyWithin(0, this.#start, this.#end);
      this.#end -= this.#start;
      this.#start = 0;
    }
    if (this.#end === this.#bytes.length) {
      // A packet is larger than the buffer; take() has checked its length, so this ends at the largest packet.
      const grown = new Uint8Array(Math.min(this.#bytes.length * 2, MESSAGE_SIZE_MAX + 4));
      grown.set(this.#bytes);
      this.#bytes = grown;
    }
    return this.#bytes.subarray(this.#end);
  }

  /** `count` bytes were read into `room()`. */
  filled(count: number): void {
    this.#end += count;
  }

  /** How many bytes of an unfinished packet are held. */
  get pending(): number {
    return this.#end - this.#start;
  }

  /**
   * The next whole packet, decoded; undefined when more has to be read.
   *
   * @throws RangeError the packet is larger than 512 KiB; SyntaxError it is broken
   */
  take(): Packet | undefined {
    const bytes = this.#bytes, at = this.#start;
    if (this.#end - at < 4) return undefined;
    const length = (bytes[at]! << 24 | bytes[at + 1]! << 16 | bytes[at + 2]! << 8 | bytes[at + 3]!) >>> 0;
    if (length > MESSAGE_SIZE_MAX) {
      throw new RangeError(
        `Cannot read a VICI packet larger than ${MESSAGE_SIZE_MAX} bytes: current size is ${length}`,
      );
    }
    if (this.#end - at - 4 < length) return undefined;
    this.#start = at + 4 + length;
    return decodePacket(bytes, at + 4, at + 4 + length);
  }
}
