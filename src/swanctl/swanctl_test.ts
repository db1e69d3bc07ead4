import assert from "node:assert/strict";
import fc from "fast-check";
import { joinList, type SwanctlSection, swanctlSection } from "./model.ts";
import { parseSwanctl } from "./parse.ts";
import { renderSwanctl } from "./render.ts";
import { splitList, translateConnections } from "./translate.ts";

const nameChars = fc.string({
  minLength: 1,
  maxLength: 12,
  unit: fc.oneof(
    fc.constantFrom(..."abcdefxyzABC0123456789-_~$/;"),
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 }),
  ),
});
const name = fc.oneof(nameChars.filter((text) => /^[^#{}:.,="\s\0]+$/.test(text)), fc.constant("include"));
const value = fc.string({ unit: "binary", maxLength: 30 }).filter((text) => !text.includes("\0"));
const { config } = fc.letrec<{ config: SwanctlSection }>((tie) => ({
  config: fc.uniqueArray(fc.tuple(name, fc.oneof({ depthSize: "small" }, value, tie("config"))), {
    maxLength: 6,
    selector: ([key]) => key,
  }).map((entries) => new Map(entries as [string, string | SwanctlSection][])),
}));

Deno.test("parseSwanctl() gives back what renderSwanctl() wrote", () => {
  fc.assert(
    fc.property(config, (original) => assert.deepEqual(parseSwanctl(renderSwanctl(original)), original)),
    { numRuns: 500 },
  );
});

Deno.test("renderSwanctl() is stable: parsed and rendered again it gives the same bytes", () => {
  const canonical = (from: SwanctlSection): SwanctlSection =>
    new Map(
      [...from].map((
        [key, inner],
      ): [string, string | SwanctlSection] => [key, typeof inner === "string" ? inner : canonical(inner)])
        .sort(([, a], [, b]) => Number(typeof a !== "string") - Number(typeof b !== "string")),
    );
  fc.assert(fc.property(config, (original) => {
    const text = renderSwanctl(canonical(original));
    assert.equal(renderSwanctl(parseSwanctl(text)), text);
  }));
});

Deno.test("parseSwanctl() answers with a model or a SyntaxError when the text is anything", () => {
  const piece = fc.constantFrom(
    "a",
    "b",
    " ",
    "\n",
    "{",
    "}",
    "=",
    ":",
    ",",
    '"',
    "\\",
    "#",
    "include ",
    "\r",
    ".",
    "\u00a0",
    "\f",
    "\0",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 25 }), (pieces) => {
      try {
        parseSwanctl(pieces.join(""));
      } catch (error) {
        assert(error instanceof SyntaxError);
      }
    }),
    { numRuns: 5000 },
  );
});

Deno.test("renderSwanctl() writes ids, addresses and proposals bare and quotes the rest", () => {
  const text = renderSwanctl(swanctlSection({
    connections: {
      "partner-a": {
        version: 2,
        mobike: false,
        local_addrs: ["10.1.2.3"],
        remote_addrs: ["198.51.100.7", "2001:db8::7"],
        proposals: ["aes256gcm16-prfsha384-ecp384"],
        local: { auth: "psk", id: "203.0.113.10" },
        remote: { auth: "psk", id: "gw{1}#evil\n}" },
        children: {
          include: { local_ts: ["10.0.0.0/24", "dynamic[tcp/80]"], start_action: "start", absent: undefined },
        },
      },
    },
  }));
  assert.equal(
    text,
    `connections {
  partner-a {
    version = 2
    mobike = no
    local_addrs = 10.1.2.3
    remote_addrs = 198.51.100.7, 2001:db8::7
    proposals = aes256gcm16-prfsha384-ecp384
    local {
      auth = psk
      id = 203.0.113.10
    }
    remote {
      auth = psk
      id = "gw{1}#evil\\n}"
    }
    children {
      include{
        local_ts = 10.0.0.0/24, dynamic[tcp/80]
        start_action = start
      }
    }
  }
}
`,
  );
});

Deno.test("renderSwanctl() refuses names and values that strongSwan can't read", () => {
  for (const bad of ["", "a.b", "a b", "a{", "a#", 'a"', "a=", "a:b", "a,b", "a\n"]) {
    assert.throws(() => renderSwanctl(new Map([[bad, "x"]])), TypeError);
  }
  assert.throws(() => renderSwanctl(new Map([["a", "x\0y"]])), TypeError);
});

/** What `text` reads as, with sections as objects. */
function read(text: string): unknown {
  const plain = (from: SwanctlSection): unknown =>
    Object.fromEntries(
      [...from].map(([key, inner]) => [key, typeof inner === "string" ? inner : plain(inner)]),
    );
  return plain(parseSwanctl(text));
}

const GRAMMAR: readonly (readonly [string, string, unknown])[] = [
  ["comments and blank lines", "# c\n\na = b # c\n  # d\n", { a: "b" }],
  ["a comment inside a word", "a = b#c", { a: "b" }],
  ["blanks in a value", "a =   b   c\t d  ", { a: "b c d" }],
  ["signs in a value", "a = {b = c: d, e", { a: "{b = c: d, e" }],
  ["a value that a brace ends", "s { a = b }", { s: { a: "b" } }],
  ["nesting on one line", "s { t { a = b } u { c = d } }", { s: { t: { a: "b" }, u: { c: "d" } } }],
  ["a brace on the next line", "s\n\n{\na = b\n}", { s: { a: "b" } }],
  ["an unset value", "a =\nb = \n", {}],
  ["an unset value before", "a = 1\na =\n", {}],
  ["an empty quoted value", 'a = ""', { a: "" }],
  ["escapes", String.raw`a = "\n\r\t\"\\\x"`, { a: '\n\r\t"\\x' }],
  ["a joined line", 'a = "b\\\n c"', { a: "b c" }],
  ["a quoted value of two lines", 'a = "b\nc"', { a: "b\nc" }],
  ["parts", 'a = "b" c   "d"', { a: "b c d" }],
  ["a backslash outside quotes", "a = b\\nc", { a: "b\\nc" }],
  ["carriage returns", "s {\r\n  a = b\r\n}\r\n", { s: { a: "b" } }],
  ["a repeated section", "s { a = 1\nb = 2 }\ns { b = 3\nc = 4 }", { s: { a: "1", b: "3", c: "4" } }],
  ["a reference", "base { a = 1\nb = 2 }\ns : base { b = 3 }", {
    base: { a: "1", b: "2" },
    s: { b: "3", a: "1" },
  }],
  ["a reference forward", "s : base { }\nbase { a = 1 }", { s: { a: "1" }, base: { a: "1" } }],
  ["two references, the first wins", "x { a = 1 }\ny { a = 2\nb = 3 }\ns : x, y { }", {
    x: { a: "1" },
    y: { a: "2", b: "3" },
    s: { a: "1", b: "3" },
  }],
  ["a dotted reference", "x { y { a = 1 } }\ns : x.y { }", { x: { y: { a: "1" } }, s: { a: "1" } }],
  ["a hidden inherited value", "x { a = 1\nb = 2 }\ns : x { a = }", { x: { a: "1", b: "2" }, s: { b: "2" } }],
  ["an inherited section", "x { t { a = 1\nb = 2 } }\ns : x { t { a = 3 } }", {
    x: { t: { a: "1", b: "2" } },
    s: { t: { a: "3", b: "2" } },
  }],
  ["a reference to nothing", "s : nothing { a = 1 }", { s: { a: "1" } }],
  ["a key named include", "include = x", { include: "x" }],
];
for (const [what, text, expected] of GRAMMAR) {
  Deno.test(`parseSwanctl() reads ${what}`, () => assert.deepEqual(read(text), expected));
}

for (
  const text of [
    "a",
    "a {",
    "a { b = 1",
    "}",
    "a }",
    '"a" = b',
    'a = "b',
    "a.b { }",
    "= b",
    "{ }",
    "a : { }",
    "a : b",
    "a\n= b {}",
    "include x",
    "a : b, { }",
    "a : a { }",
  ]
) {
  Deno.test(`parseSwanctl() throws a SyntaxError for ${JSON.stringify(text)}`, () => {
    assert.throws(() => parseSwanctl(text), SyntaxError);
  });
}

Deno.test("parseSwanctl() names file and line of an error", () => {
  assert.throws(
    () => parseSwanctl("a = b\nc {\n", { path: "x.conf" }),
    /x\.conf at line 3: section c does not end/,
  );
});

Deno.test("parseSwanctl() puts included files in place", () => {
  const config = parseSwanctl('s {\n include conf.d/*.conf\n a = 2\n}\ninclude "none"', {
    path: "/etc/x.conf",
    include: (pattern, from) =>
      pattern === "conf.d/*.conf" && from === "/etc/x.conf"
        ? [{ path: "/etc/conf.d/1.conf", text: "a = 1\nb = 1" }]
        : [],
  });
  assert.deepEqual(config, swanctlSection({ s: { a: "2", b: "1" } }));
});

Deno.test("splitList() gives the items that joinList() joined", () => {
  const item = fc.string({ unit: fc.constantFrom(..."ab ,'\"/-"), minLength: 1, maxLength: 8 })
    .filter((text) => !(text.includes('"') && text.includes("'")));
  fc.assert(fc.property(fc.array(item), (items) => assert.deepEqual(splitList(joinList(items)), items)));
  assert.deepEqual(splitList(" a ,, b,'c, d' , \"e\",,"), ["a", "b", "c, d", "e"]);
  assert.throws(() => joinList([`a'"`]), TypeError);
});

Deno.test("translateConnections() makes one message per connection, with lists as lists", () => {
  const messages = translateConnections(parseSwanctl(`
    connections {
      a {
        version = 2
        local_addrs = 10.0.0.1
        proposals = aes128-sha256-x25519, default
        local { auth = psk
          id = "@a, b" }
        remote-1 { certs = 0x3000, 0sMAA= }
        children { net { esp_proposals = aes128gcm16
          remote_ts = 10.1.0.0/16,10.2.0.0/16 } }
      }
      b { }
    }
    secrets { ike-x { secret = nothing } }`));
  assert.deepEqual(messages, [
    {
      name: "a",
      message: new Map<string, unknown>([
        ["version", "2"],
        ["local_addrs", ["10.0.0.1"]],
        ["proposals", ["aes128-sha256-x25519", "default"]],
        ["local", new Map([["auth", "psk"], ["id", "@a, b"]])],
        ["remote-1", new Map([["certs", [Uint8Array.of(0x30, 0), Uint8Array.of(0x30, 0)]]])],
        [
          "children",
          new Map([[
            "net",
            new Map([["esp_proposals", ["aes128gcm16"]], ["remote_ts", ["10.1.0.0/16", "10.2.0.0/16"]]]),
          ]]),
        ],
      ]),
    },
    { name: "b", message: new Map() },
  ]);
  assert.deepEqual(translateConnections(new Map()), []);
  assert.throws(() => translateConnections(new Map([["connections", "x"]])), TypeError);
  assert.throws(
    () => translateConnections(parseSwanctl("connections { a { local { certs = x.pem } } }")),
    TypeError,
  );
});
