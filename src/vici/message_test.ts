import assert from "node:assert/strict";
import fc from "fast-check";
import {
  bytesOf,
  decodeMessage,
  encodeMessage,
  listOf,
  section,
  sectionOf,
  textOf,
  type ViciValue,
} from "./message.ts";
import { decodePacket, encodePacket, PACKET, PacketBuffer } from "./wire.ts";

const hex = (text: string): Uint8Array =>
  Uint8Array.from(text.replaceAll(/\s/g, "").match(/../g) ?? [], (h) => parseInt(h, 16));
const ascii = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Bytes that are not UTF-8, so that they come back as bytes. */
const binary = fc.uint8Array({ maxLength: 40 }).map((bytes) => Uint8Array.of(0xff, ...bytes));
const value = fc.oneof(fc.string({ unit: "binary", maxLength: 300 }).map((s) => s.toWellFormed()), binary);
const name = fc.string({
  minLength: 1,
  maxLength: 255,
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((c) => String.fromCharCode(c)),
});
const { message } = fc.letrec<{ message: Map<string, ViciValue> }>((tie) => ({
  message: fc.uniqueArray(
    fc.tuple(
      name,
      fc.oneof({ depthSize: "small" }, value, fc.array(value, { maxLength: 4 }), tie("message")),
    ),
    { maxLength: 8, selector: ([key]) => key },
  ).map((entries) => new Map(entries as [string, ViciValue][])),
}));

Deno.test("decodeMessage() gives back what encodeMessage() wrote", () => {
  fc.assert(
    fc.property(message, (original) => assert.deepEqual(decodeMessage(encodeMessage(original)), original)),
  );
});

Deno.test("decodeMessage() answers with a message or a SyntaxError when the bytes are anything", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      try {
        decodeMessage(bytes);
      } catch (error) {
        assert(error instanceof SyntaxError);
      }
    }),
    { numRuns: 2000 },
  );
});

Deno.test("decodeMessage() answers with a message or a SyntaxError when a message is cut or one byte is changed", () => {
  fc.assert(
    fc.property(message, fc.nat(), fc.nat(255), fc.boolean(), (original, at, byte, cut) => {
      const bytes = encodeMessage(original).slice();
      if (bytes.length === 0) return;
      const end = cut ? at % bytes.length : bytes.length;
      if (!cut) bytes[at % bytes.length] = byte;
      try {
        decodeMessage(bytes, 0, end);
      } catch (error) {
        assert(error instanceof SyntaxError);
      }
    }),
    { numRuns: 1000 },
  );
});

Deno.test("PacketBuffer.take() gives the same packets when the stream is cut anywhere", () => {
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 5 }),
      fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1 }),
      (messages, cuts) => {
        const stream = messages.flatMap((m) => [...encodePacket(PACKET.event, "list-sa", m)]);
        const buffer = new PacketBuffer(7);
        const seen: unknown[] = [];
        for (let at = 0, turn = 0; at < stream.length; turn++) {
          const room = buffer.room();
          const part = stream.slice(at, at + Math.min(cuts[turn % cuts.length]!, room.length));
          room.set(part);
          buffer.filled(part.length);
          at += part.length;
          for (let packet = buffer.take(); packet; packet = buffer.take()) seen.push(packet.message);
        }
        assert.deepEqual(seen, messages);
        assert.equal(buffer.pending, 0);
      },
    ),
  );
});

Deno.test("encodeMessage() writes the example of the protocol's description byte by byte", () => {
  const example = section({
    key1: "value1",
    section1: { "sub-section": { key2: "value2" }, list1: ["item1", "item2"] },
  });
  assert.deepEqual(
    encodeMessage(example),
    Uint8Array.of(
      3,
      4,
      ...ascii("key1"),
      0,
      6,
      ...ascii("value1"),
      1,
      8,
      ...ascii("section1"),
      1,
      11,
      ...ascii("sub-section"),
      3,
      4,
      ...ascii("key2"),
      0,
      6,
      ...ascii("value2"),
      2,
      4,
      5,
      ...ascii("list1"),
      5,
      0,
      5,
      ...ascii("item1"),
      5,
      0,
      5,
      ...ascii("item2"),
      6,
      2,
    ),
  );
});

Deno.test("encodePacket() and decodePacket() agree with the vectors of other clients", () => {
  assert.deepEqual(
    encodePacket(PACKET.commandRequest, "command_type"),
    Uint8Array.of(0, 0, 0, 14, 0, 12, ...ascii("command_type")),
  );
  assert.deepEqual(
    encodePacket(PACKET.eventRegister, "event_type"),
    Uint8Array.of(0, 0, 0, 12, 3, 10, ...ascii("event_type")),
  );
  assert.deepEqual(
    encodePacket(PACKET.eventUnregister, "event_type"),
    Uint8Array.of(0, 0, 0, 12, 4, 10, ...ascii("event_type")),
  );
  for (
    const type of [PACKET.commandResponse, PACKET.commandUnknown, PACKET.eventConfirm, PACKET.eventUnknown]
  ) {
    assert.deepEqual(decodePacket(Uint8Array.of(type)), { type, name: "", message: new Map() });
  }
  assert.equal(decodePacket(Uint8Array.of(7, 3, ...ascii("log"))).name, "log");
});

const BROKEN: Readonly<Record<string, string>> = {
  "a section that does not end": "01 07 73656374696f6e",
  "a section end without a start": "02",
  "a key and value inside a list": "04 01 61 03 01 62 00 00 06",
  "a section inside a list": "04 01 61 01 01 62 02 06",
  "a list item outside a list": "05 00 00",
  "a list end without a start": "06",
  "a list that does not end": "04 01 61",
  "a truncated name": "03 05 61",
  "a truncated length": "03 01 61 00",
  "a truncated value": "03 01 61 00 05 62",
  "an empty name": "03 00 00 05 76616c7565",
  "a name twice": "03 01 61 00 00 03 01 61 00 00",
  "a section's name twice": "01 01 61 02 01 01 61 02",
  "a name twice around a section": "03 01 61 00 00 01 01 62 02 03 01 61 00 00",
  "element 0": "00",
  "element 9": "09",
};
for (const [what, bytes] of Object.entries(BROKEN)) {
  Deno.test(`decodeMessage() throws a SyntaxError when there is ${what}`, () => {
    assert.throws(() => decodeMessage(hex(bytes)), SyntaxError);
  });
}

const BROKEN_PACKETS: Readonly<Record<string, string>> = {
  "nothing": "",
  "an unknown type": "30",
  "an event without a name": "07",
  "an event with an empty name": "07 00 30",
  "a name that is cut": "07 07 303030",
  "bytes after a confirmation": "05 00",
};
for (const [what, bytes] of Object.entries(BROKEN_PACKETS)) {
  Deno.test(`decodePacket() throws a SyntaxError when there is ${what}`, () => {
    assert.throws(() => decodePacket(hex(bytes)), SyntaxError);
  });
}

Deno.test("encodeMessage() keeps limits of names and values and shows no value", () => {
  encodeMessage(section({ ["n".repeat(255)]: "v".repeat(65_535) }));
  assert.throws(() => encodeMessage(section({ ["n".repeat(256)]: "" })), RangeError);
  assert.throws(() => encodeMessage(section({ "": "" })), TypeError);
  assert.throws(() => encodeMessage(section({ "ä": "" })), TypeError);
  assert.throws(
    () => encodeMessage(section({ data: "secret".repeat(20_000) })),
    (error: unknown) => error instanceof RangeError && !error.message.includes("secret"),
  );
});

Deno.test("PacketBuffer.take() refuses a packet above 512 KiB and takes one of exactly that", () => {
  const refused = new PacketBuffer();
  refused.room().set(hex("00 08 00 01"));
  refused.filled(4);
  assert.throws(() => refused.take(), RangeError);

  const body = new Uint8Array(512 * 1024).fill(0x61);
  const filled = section(
    Object.fromEntries(
      Array.from({ length: 8 }, (_, i) => [`k${i}`, body.subarray(0, i === 0 ? 65_534 : 65_529)]),
    ),
  );
  const packet = encodePacket(PACKET.commandRequest, "x", filled);
  const buffer = new PacketBuffer(4096);
  for (let at = 0; at < packet.length;) {
    const room = buffer.room();
    const part = packet.subarray(at, at + room.length);
    room.set(part);
    buffer.filled(part.length);
    at += part.length;
  }
  assert.equal(buffer.take()?.message.size, 8);
  assert.throws(
    () => encodePacket(PACKET.commandRequest, "x", section({ a: filled, b: "y".repeat(100) })),
    RangeError,
  );
});

Deno.test("textOf(), listOf(), sectionOf() and bytesOf() give undefined or nothing when the kind is another", () => {
  const from = section({
    text: "t",
    list: ["a"],
    inner: { deep: "d" },
    raw: Uint8Array.of(0xff),
    left: undefined,
  });
  assert.equal(textOf(from, "text"), "t");
  assert.equal(textOf(from, "list"), undefined);
  assert.equal(textOf(undefined, "text"), undefined);
  assert.deepEqual(listOf(from, "list"), ["a"]);
  assert.deepEqual(listOf(from, "text"), []);
  assert.equal(textOf(sectionOf(from, "inner"), "deep"), "d");
  assert.equal(sectionOf(from, "text"), undefined);
  assert.deepEqual(bytesOf(from, "raw"), Uint8Array.of(0xff));
  assert.deepEqual(bytesOf(from, "text"), Uint8Array.of(0x74));
  assert.equal(from.has("left"), false);
});
