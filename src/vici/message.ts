/**
 * A value of a VICI message. What is valid UTF-8 on the wire is decoded to a string, without loss; anything else
 * (DER of a certificate) stays bytes. Key material is sent as bytes.
 */
export type ViciValue = string | Uint8Array | readonly (string | Uint8Array)[] | ViciSection;

/** A section: keys in the order of the wire, each once. */
export type ViciSection = ReadonlyMap<string, ViciValue>;

/** The same as an object literal, for callers; `undefined` leaves a key out. */
export interface ViciLiteral {
  readonly [name: string]:
    | string
    | Uint8Array
    | readonly (string | Uint8Array)[]
    | ViciSection
    | ViciLiteral
    | undefined;
}

/** The largest packet, as charon is built by default (VICI_MESSAGE_SIZE_MAX of strongSwan's vici_socket.h). */
export const MESSAGE_SIZE_MAX = 512 * 1024;
const NAME_MAX = 255;
const VALUE_MAX = 65_535;

const SECTION_START = 1, SECTION_END = 2, KEY_VALUE = 3, LIST_START = 4, LIST_ITEM = 5, LIST_END = 6;

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
const strictUtf8 = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
const encoder = new TextEncoder();

/** Builds a section from an object literal; nested literals become sections. */
export function section(literal: ViciLiteral): Map<string, ViciValue> {
  const result = new Map<string, ViciValue>();
  for (const [name, value] of Object.entries(literal)) {
    if (value === undefined) continue;
    const plain = typeof value === "string" || value instanceof Uint8Array || value instanceof Map ||
      Array.isArray(value);
    result.set(name, plain ? value as ViciValue : section(value as ViciLiteral));
  }
  return result;
}

/** The string at `name`, or undefined where there is none or something else. */
export function textOf(from: ViciSection | undefined, name: string): string | undefined {
  const value = from?.get(name);
  return typeof value === "string" ? value : undefined;
}

/** The bytes at `name`, whether they were decoded to a string or not. */
export function bytesOf(from: ViciSection | undefined, name: string): Uint8Array | undefined {
  const value = from?.get(name);
  if (typeof value === "string") return encoder.encode(value);
  return value instanceof Uint8Array ? value : undefined;
}

/** The strings of the list at `name`; empty where there is none. */
export function listOf(from: ViciSection | undefined, name: string): readonly string[] {
  const value = from?.get(name);
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : [];
}

/** The section at `name`, or undefined. */
export function sectionOf(from: ViciSection | undefined, name: string): ViciSection | undefined {
  const value = from?.get(name);
  return value instanceof Map ? value : undefined;
}

/** The sections directly below `from`, in order. */
export function sectionsOf(from: ViciSection | undefined): [string, ViciSection][] {
  const found: [string, ViciSection][] = [];
  for (const [name, value] of from ?? []) if (value instanceof Map) found.push([name, value]);
  return found;
}

/** A growing byte buffer. */
class Writer {
  #bytes = new Uint8Array(1024);
  length = 0;

  #room(count: number): Uint8Array {
    if (this.length + count > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.length + count));
      grown.set(this.#bytes.subarray(0, this.length));
      this.#bytes = grown;
    }
    return this.#bytes;
  }

  byte(value: number): void {
    this.#room(1)[this.length++] = value;
  }

  name(name: string): void {
    if (!/^[\x20-\x7e]+$/.test(name)) {
      throw new TypeError(
        `Cannot encode a VICI name that is empty or not printable ASCII: current value is ${
          JSON.stringify(name)
        }`,
      );
    }
    if (name.length > NAME_MAX) {
      throw new RangeError(
        `Cannot encode a VICI name longer than ${NAME_MAX} bytes: current length is ${name.length}`,
      );
    }
    const bytes = this.#room(1 + name.length);
    bytes[this.length++] = name.length;
    for (let i = 0; i < name.length; i++) bytes[this.length++] = name.charCodeAt(i);
  }

  value(value: string | Uint8Array, name: string): void {
    const raw = typeof value === "string" ? encoder.encode(value) : value;
    if (raw.length > VALUE_MAX) {
      // The value itself may be a key and is never shown.
      throw new RangeError(
        `Cannot encode ${name} with a value longer than ${VALUE_MAX} bytes: current length is ${raw.length}`,
      );
    }
    const bytes = this.#room(2 + raw.length);
    bytes[this.length++] = raw.length >> 8;
    bytes[this.length++] = raw.length & 0xff;
    bytes.set(raw, this.length);
    this.length += raw.length;
  }

  raw(): Uint8Array {
    return this.#bytes.subarray(0, this.length);
  }
}

function writeSection(out: Writer, from: ViciSection): void {
  for (const [name, value] of from) {
    if (typeof value === "string" || value instanceof Uint8Array) {
      out.byte(KEY_VALUE);
      out.name(name);
      out.value(value, name);
    } else if (value instanceof Map) {
      out.byte(SECTION_START);
      out.name(name);
      writeSection(out, value);
      out.byte(SECTION_END);
    } else {
      out.byte(LIST_START);
      out.name(name);
      for (const item of value as readonly (string | Uint8Array)[]) {
        out.byte(LIST_ITEM);
        out.value(item, name);
      }
      out.byte(LIST_END);
    }
  }
}

/**
 * Encodes the elements of a message.
 *
 * @throws TypeError a name is empty or not printable ASCII; RangeError a name or value is too long
 */
export function encodeMessage(message: ViciSection): Uint8Array {
  const out = new Writer();
  writeSection(out, message);
  return out.raw();
}

// Names recur in every message of a kind: found by a cheap hash and compared byte by byte, so that the common
// one costs neither an allocation nor a hash of its characters. Bounded; a collision only costs the speed.
const NAMES = 4096;
const names: string[] = new Array(NAMES).fill("");

function nameAt(bytes: Uint8Array, at: number, length: number): string {
  const slot =
    (length * 8191 ^ bytes[at]! * 31 ^ bytes[at + length - 1]! * 127 ^ bytes[at + (length >> 1)]! * 1031) &
    (NAMES - 1);
  const known = names[slot]!;
  if (known.length === length) {
    let i = 0;
    while (i < length && known.charCodeAt(i) === bytes[at + i]) i++;
    if (i === length) return known;
  }
  let name = "";
  for (let i = 0; i < length; i++) name += String.fromCharCode(bytes[at + i]!);
  names[slot] = name;
  return name;
}

function broken(what: string, at: number): SyntaxError {
  return new SyntaxError(`Cannot decode a VICI message: ${what} at byte ${at}`);
}

/** A string where the bytes are UTF-8, else a copy of the bytes. */
function slowValue(bytes: Uint8Array, from: number, to: number): string | Uint8Array {
  const part = bytes.subarray(from, to);
  try {
    return strictUtf8.decode(part);
  } catch {
    return part.slice();
  }
}

/**
 * Decodes the elements between `start` and `end` of `bytes`.
 *
 * One pass. Where all bytes of the message are ASCII (nearly always) it is turned into one string whose parts are
 * the values, since one call of the decoder for each value would cost more than everything else.
 *
 * @throws SyntaxError the message is truncated, unbalanced, has an unknown element, an empty name or one twice
 */
export function decodeMessage(bytes: Uint8Array, start = 0, end = bytes.length): Map<string, ViciValue> {
  let high = 0;
  for (let i = start; i < end; i++) high |= bytes[i]!;
  const text = high < 0x80 ? utf8.decode(bytes.subarray(start, end)) : undefined;
  const root = new Map<string, ViciValue>();
  const open: Map<string, ViciValue>[] = [];
  let current = root, list: (string | Uint8Array)[] | undefined, size = 0, at = start;
  while (at < end) {
    const type = bytes[at++]!;
    if (type === LIST_ITEM) {
      if (list === undefined) throw broken("a list item outside a list", at - 1);
      if (at + 2 > end) throw broken("a truncated length", at);
      const from = at + 2, to = from + (bytes[at]! << 8 | bytes[at + 1]!);
      if (to > end) throw broken("a truncated value", from);
      list.push(text === undefined ? slowValue(bytes, from, to) : text.substring(from - start, to - start));
      at = to;
      continue;
    }
    if (type === LIST_END) {
      if (list === undefined) throw broken("the end of a list that has not begun", at - 1);
      list = undefined;
      continue;
    }
    if (list !== undefined) throw broken(`element ${type} inside a list`, at - 1);
    if (type === SECTION_END) {
      if (open.length === 0) throw broken("the end of a section that has not begun", at - 1);
      current = open.pop()!;
      size = current.size;
      continue;
    }
    if (type !== KEY_VALUE && type !== SECTION_START && type !== LIST_START) {
      throw broken(`unknown element ${type}`, at - 1);
    }
    if (at >= end) throw broken("a missing name", at);
    const length = bytes[at++]!;
    if (length === 0) throw broken("an empty name", at - 1);
    if (at + length > end) throw broken("a truncated name", at);
    const name = nameAt(bytes, at, length);
    at += length;
    if (type === KEY_VALUE) {
      if (at + 2 > end) throw broken("a truncated length", at);
      const from = at + 2, to = from + (bytes[at]! << 8 | bytes[at + 1]!);
      if (to > end) throw broken("a truncated value", from);
      current.set(
        name,
        text === undefined ? slowValue(bytes, from, to) : text.substring(from - start, to - start),
      );
      at = to;
    } else if (type === SECTION_START) {
      const inner = new Map<string, ViciValue>();
      current.set(name, inner);
      if (current.size === size) throw broken(`name ${JSON.stringify(name)} twice`, at);
      open.push(current);
      current = inner;
      size = 0;
      continue;
    } else {
      list = [];
      current.set(name, list);
    }
    if (current.size === size) throw broken(`name ${JSON.stringify(name)} twice`, at);
    size = current.size;
  }
  if (list !== undefined) throw broken("a list that does not end", end);
  if (open.length > 0) throw broken("a section that does not end", end);
  return root;
}
