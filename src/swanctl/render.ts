import { isSwanctlName, type SwanctlSection } from "./model.ts";

/** Values that read the same bare: an address, an identity, a proposal, a list of them. */
const BARE = /^[A-Za-z0-9_.:/%@*+!|\-[\]]+(?:,? [A-Za-z0-9_.:/%@*+!|\-[\]]+)*$/;
const ESCAPES: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  '"': '\\"',
  "\\": "\\\\",
};

function quoted(value: string, name: string): string {
  // The parser of strongSwan works on C strings.
  if (value.includes("\0")) throw new TypeError(`Cannot render ${name} with a NUL character in its value`);
  return BARE.test(value) ? value : `"${value.replaceAll(/[\n\r\t"\\]/g, (c) => ESCAPES[c]!)}"`;
}

function write(lines: string[], from: SwanctlSection, indent: string): void {
  for (const [name, value] of from) {
    if (!isSwanctlName(name)) {
      throw new TypeError(
        `Cannot render a section or key of this name: current value is ${JSON.stringify(name)}`,
      );
    }
    if (typeof value === "string") {
      lines.push(`${indent}${name} = ${quoted(value, name)}`);
    } else {
      // "include {" would include the file "{"; without the blank it is a name as any other.
      lines.push(`${indent}${name}${name === "include" ? "" : " "}{`);
      write(lines, value, indent + "  ");
      lines.push(`${indent}}`);
    }
  }
}

/**
 * Writes a configuration as swanctl.conf. The same model gives the same bytes; names keep the model's order.
 *
 * @throws TypeError a name is none that strongSwan can read, or a value holds NUL
 */
export function renderSwanctl(config: SwanctlSection): string {
  const lines: string[] = [];
  write(lines, config, "");
  return lines.map((line) => line + "\n").join("");
}
