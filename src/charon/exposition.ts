/** One sample: its labels in the order to write, and its value. */
export type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

const escapeLabel = (text: string): string =>
  text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");

/**
 * Collects metrics and writes them in the Prometheus text format 0.0.4. Ours, since prom-client costs a process with
 * a memory budget more than it does here: nothing is kept between two scrapes.
 */
export class Exposition {
  #text = "";

  /** A metric and all of its samples. Without a sample only its description is written. */
  add(name: string, type: "gauge" | "counter", help: string, samples: Iterable<Sample>): void {
    this.#text += `# HELP ${name} ${
      help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")
    }\n# TYPE ${name} ${type}\n`;
    for (const [labels, value] of samples) {
      const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`).join(
        ",",
      );
      this.#text += `${name}${pairs === "" ? "" : `{${pairs}}`} ${number(value)}\n`;
    }
  }

  toString(): string {
    return this.#text;
  }
}

function number(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  return Number.isFinite(value) ? String(value) : value > 0 ? "+Inf" : "-Inf";
}
