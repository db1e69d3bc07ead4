import type { SwanctlSection } from "./model.ts";

/** A file that an `include` matched. */
export interface IncludedFile {
  readonly path: string;
  readonly text: string;
}

/** Where includes come from. */
export interface ParseOptions {
  /** The file's own path, for messages and for relative includes. */
  readonly path?: string;
  /**
   * The files that match `pattern`, which is relative to the folder of `from`; none is no error, as in strongSwan.
   * Without this function an include is refused.
   */
  readonly include?: (pattern: string, from: string) => readonly IncludedFile[];
}

/** A section as written: `undefined` is a value that was unset and hides an inherited one. */
interface Node {
  readonly values: Map<string, string | undefined>;
  readonly sections: Map<string, Node>;
  readonly references: string[];
}

const node = (): Node => ({ values: new Map(), sections: new Map(), references: [] });
const DEPTH_MAX = 64;

class Reader {
  #at = 0;

  constructor(readonly text: string, readonly path: string) {}

  fail(what: string, at = this.#at): never {
    const line = this.text.slice(0, at).split("\n").length;
    throw new SyntaxError(`Cannot parse ${this.path} at line ${line}: ${what}`);
  }

  get rest(): boolean {
    return this.#at < this.text.length;
  }

  peek(): string {
    return this.text[this.#at] ?? "";
  }

  next(): void {
    this.#at++;
  }

  match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.#at += found.length;
    return found;
  }

  blanks(): void {
    this.match(/[ \t\r]*/y);
  }

  /** Blanks, line ends and comments. */
  space(): void {
    this.match(/(?:[ \t\r\n]+|#[^\n]*)*/y);
  }

  name(what: string): string {
    const name = this.match(/[^#{}:.,=" \t\r\n\0]+/y);
    return name === "" ? this.fail(`${what} expected before ${JSON.stringify(this.peek())}`) : name;
  }

  /** After the opening quote. */
  quoted(): string {
    const start = this.#at;
    let value = "";
    while (true) {
      value += this.match(/[^"\\\r]+/y);
      const char = this.peek();
      if (char === "") this.fail("a quoted string that does not end", start);
      this.next();
      if (char === '"') return value;
      if (char === "\r") continue;
      const escaped = this.peek();
      if (escaped === "") this.fail("a quoted string that does not end", start);
      this.next();
      if (escaped === "\r" && this.peek() === "\n") this.next();
      else if (escaped !== "\n") value += { n: "\n", r: "\r", t: "\t" }[escaped] ?? escaped;
    }
  }

  /** After the equals sign; undefined where nothing follows. Parts are joined by one space. */
  value(): string | undefined {
    const parts: string[] = [];
    while (true) {
      this.blanks();
      const char = this.peek();
      if (char === "" || char === "\n" || char === "#" || char === "}") break;
      if (char === '"') {
        this.next();
        parts.push(this.quoted());
      } else parts.push(this.match(/[^#}" \t\r\n]+/y));
    }
    return parts.length === 0 ? undefined : parts.join(" ");
  }
}

function body(reader: Reader, into: Node, options: ParseOptions, depth: number): void {
  if (depth > DEPTH_MAX) reader.fail(`more than ${DEPTH_MAX} sections or includes inside each other`);
  while (true) {
    reader.space();
    const char = reader.peek();
    if (char === "" || char === "}") return;
    if (reader.match(/include[ \t]+(?=[^= \t\r\n])/y) !== "") {
      const pattern = reader.peek() === '"'
        ? (reader.next(), reader.quoted())
        : reader.match(/[^#" \t\r\n]+/y);
      if (options.include === undefined) reader.fail("an include, which is not allowed here");
      for (const file of options.include(pattern, reader.path)) {
        const inner = new Reader(file.text, file.path);
        body(inner, into, options, depth + 1);
        if (inner.rest) inner.fail("a closing brace without an opening one");
      }
      continue;
    }
    const name = reader.name("a name");
    reader.blanks();
    if (reader.peek() === "=") {
      reader.next();
      into.values.set(name, reader.value());
      continue;
    }
    const child = into.sections.get(name) ?? node();
    into.sections.set(name, child);
    if (reader.peek() === ":") {
      do {
        reader.next();
        reader.space();
        const reference = reader.match(/[^#{}:,=" \t\r\n\0]+/y);
        if (reference === "") reader.fail("a reference expected");
        child.references.push(reference);
        reader.space();
      } while (reader.peek() === ",");
    }
    reader.space();
    if (reader.peek() !== "{") reader.fail(`"{" or "=" expected after ${name}`);
    reader.next();
    body(reader, child, options, depth + 1);
    if (reader.peek() !== "}") reader.fail(`section ${name} does not end`);
    reader.next();
  }
}

/** The nodes that one section is made of: itself, then what it refers to, in order. */
function lineage(root: Node, start: readonly Node[], path: string): Node[] {
  const found: Node[] = [];
  const add = (one: Node, open: readonly Node[]): void => {
    if (open.includes(one)) {
      throw new SyntaxError(`Cannot resolve the references of ${path}: they go in a circle`);
    }
    if (found.includes(one)) return;
    found.push(one);
    for (const reference of one.references) {
      let target: Node | undefined = root;
      for (const part of reference.split(".")) target = target?.sections.get(part);
      if (target !== undefined) add(target, [...open, one]);
    }
  };
  for (const one of start) add(one, []);
  return found;
}

function resolve(
  root: Node,
  start: readonly Node[],
  path: string,
  depth: number,
): Map<string, string | SwanctlSection> {
  if (depth > DEPTH_MAX) {
    throw new SyntaxError(`Cannot resolve the references of ${path}: they nest too deep`);
  }
  const nodes = lineage(root, start, path);
  const result = new Map<string, string | SwanctlSection>();
  const decided = new Set<string>();
  for (const one of nodes) {
    for (const [name, value] of one.values) {
      if (decided.has(name)) continue;
      decided.add(name);
      if (value !== undefined) result.set(name, value);
    }
  }
  for (const name of new Set(nodes.flatMap((one) => [...one.sections.keys()]))) {
    const parts = nodes.flatMap((one) => one.sections.get(name) ?? []);
    // A key and a section may share a name; nothing that swanctl reads does.
    if (!result.has(name)) {
      result.set(name, resolve(root, parts, path === "" ? name : `${path}.${name}`, depth + 1));
    }
  }
  return result;
}

/**
 * Reads swanctl.conf as strongSwan does (settings_parser.y): repeated sections merge, a later value overrides,
 * an empty one unsets, references and includes are resolved. In each section the values come first, own ones ahead
 * of inherited ones, then the sections, each in the order of their first appearance.
 *
 * @throws SyntaxError with the line
 */
export function parseSwanctl(text: string, options: ParseOptions = {}): SwanctlSection {
  const root = node();
  const reader = new Reader(text, options.path ?? "swanctl.conf");
  body(reader, root, options, 0);
  if (reader.rest) reader.fail("a closing brace without an opening one");
  return resolve(root, [root], "", 0);
}
