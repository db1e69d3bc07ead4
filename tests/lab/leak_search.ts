// Finds a secret in a text, in whatever form it got there.

export interface Form {
  readonly name: string;
  readonly find: (text: string, lower: string) => boolean;
}

/** Bytes as a text of one character a byte, so that any file can be searched. */
export function latin1(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return text;
}

/**
 * The characters of a base64 text that stand for `secret` alone, when `offset` bytes (0, 1, 2) come before it in its
 * group of three: those that also hold bits of a neighbour are left out.
 */
function base64Core(secret: Uint8Array, offset: number): string {
  const padded = new Uint8Array(offset + secret.length);
  padded.set(secret, offset);
  const whole = btoa(latin1(padded)).replaceAll("=", "");
  return whole.slice(Math.ceil(offset * 8 / 6), Math.floor((offset + secret.length) * 8 / 6));
}

/**
 * The forms of a secret: its bytes, also as a JSON string has them, base64 and base64url at any place of a longer one, hex,
 * and percent-encoded. `latin1` texts are searched.
 *
 * @throws RangeError for a secret under 16 bytes: it would be found by chance
 */
export function formsOf(secret: string): Form[] {
  const bytes = new TextEncoder().encode(secret);
  if (bytes.length < 16) {
    throw new RangeError(`Cannot search for a secret of ${bytes.length} bytes: it needs 16`);
  }
  // A secret inside of a JSON text is escaped there, and that text may be encoded as a whole.
  const json = new TextEncoder().encode(JSON.stringify(secret).slice(1, -1));
  const both = [bytes, json];
  const raw = both.map(latin1);
  const base64 = both.flatMap((each) => [0, 1, 2].map((offset) => base64Core(each, offset)));
  const base64url = base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"));
  const pairs = both.map((each) => Array.from(each, (byte) => byte.toString(16).padStart(2, "0")));
  const hex = ["", " ", ":", "\\x"].flatMap((between) => pairs.map((each) => each.join(between)));
  const texts = both.map((each) => new TextDecoder().decode(each));
  const url = texts.flatMap((
    text,
  ) => [encodeURIComponent(text), String(new URLSearchParams({ s: text })).slice(2)])
    .map((text) => text.toLowerCase());
  const percents = pairs.map((each) => each.map((pair) => `%${pair}`).join(""));
  const any = (needles: readonly string[]) => (text: string) =>
    needles.some((needle) => text.includes(needle));
  const anyLower = (needles: readonly string[]) => (_: string, lower: string) =>
    needles.some((needle) => lower.includes(needle));
  return [
    { name: "raw", find: any(raw) },
    { name: "base64", find: any([...base64, ...base64url]) },
    { name: "hex", find: anyLower(hex) },
    { name: "url", find: anyLower([...url, ...percents]) },
  ];
}

/** The names of the forms in which a text holds the secret. */
export function formsIn(text: string, forms: readonly Form[]): string[] {
  const lower = text.toLowerCase();
  return forms.filter(({ find }) => find(text, lower)).map(({ name }) => name);
}
