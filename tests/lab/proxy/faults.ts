// What the fault proxy is told to do, and the choice of a rule for a request. Pure.

export type Action =
  /** Forwarded untouched: to count, or to let some calls by before the next rule. */
  | { readonly kind: "pass" }
  /** Not forwarded; answered with this. */
  | {
    readonly kind: "status";
    readonly code: number;
    readonly body?: string;
    readonly headers?: Readonly<Record<string, string>>;
  }
  /** Forwarded after a pause. */
  | { readonly kind: "delay"; readonly ms: number }
  /** Not forwarded; the connection is closed without an answer. */
  | { readonly kind: "cut-before" }
  /** Forwarded, its answer read and dropped; the connection is closed. */
  | { readonly kind: "cut-after" }
  /** Forwarded; the answer keeps its status and headers, its body is no JSON. */
  | { readonly kind: "broken-body" }
  /** Forwarded; the answer announces its whole length and ends after half of it. */
  | { readonly kind: "truncate" };

export const ACTIONS: readonly string[] = [
  "pass",
  "status",
  "delay",
  "cut-before",
  "cut-after",
  "broken-body",
  "truncate",
];

export interface Rule {
  readonly id: string;
  readonly match: {
    /** `POST`; every method when left out. */
    readonly method?: string;
    /** A regular expression, searched in the path and query as the client sent them (`/network/v2.0/ports?name=x`). */
    readonly path: string;
    /** A regular expression, searched in the request's body. */
    readonly body?: string;
  };
  /** So many matching calls go by first. Default 0. */
  readonly skip?: number;
  /** So many calls are hit, then the rule is spent. Default: all. */
  readonly times?: number;
  readonly action: Action;
}

export interface RuleState extends Rule {
  /** Calls that matched, the skipped and the spent ones too. */
  readonly matched: number;
  /** Calls that the action was done to. */
  readonly hits: number;
}

export interface Call {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly body: string;
}

/** Reads rules as they come from outside. Throws TypeError that names the rule and what is wrong with it. */
export function parseRules(value: unknown): Rule[] {
  if (!Array.isArray(value)) throw new TypeError("Cannot read rules: the value is no list");
  const seen = new Set<string>();
  return value.map((each, index) => {
    const fail = (what: string): never => {
      throw new TypeError(`Cannot read rule ${each?.id ?? index}: ${what}`);
    };
    if (typeof each?.id !== "string" || each.id === "") fail("id is missing");
    if (seen.has(each.id)) fail("its id is there twice");
    seen.add(each.id);
    if (typeof each.match?.path !== "string") fail("match.path is missing");
    if (!ACTIONS.includes(each.action?.kind)) {
      fail(`action.kind is ${each.action?.kind}, not one of ${ACTIONS.join(", ")}`);
    }
    if (each.action.kind === "status" && !Number.isInteger(each.action.code)) fail("action.code is missing");
    if (each.action.kind === "delay" && !(each.action.ms >= 0)) fail("action.ms is missing");
    for (const text of [each.match.path, each.match.body]) {
      try {
        if (text !== undefined) new RegExp(text);
      } catch (error) {
        fail(error instanceof Error ? error.message : String(error));
      }
    }
    return each as Rule;
  });
}

/** The rules in force, with their counts. */
export class Faults {
  #rules: { rule: Rule; matched: number; hits: number }[] = [];

  /** Replaces all rules. A rule that was there unchanged starts to count anew as well. */
  replace(rules: readonly Rule[]): void {
    this.#rules = rules.map((rule) => ({ rule, matched: 0, hits: 0 }));
  }

  state(): RuleState[] {
    return this.#rules.map(({ rule, matched, hits }) => ({ ...rule, matched, hits }));
  }

  /** The first rule that matches and is neither still skipping nor spent; counts it as hit. */
  choose(call: Call): Rule | undefined {
    for (const entry of this.#rules) {
      const { match, skip = 0, times = Infinity } = entry.rule;
      if (match.method !== undefined && match.method.toUpperCase() !== call.method) continue;
      if (!new RegExp(match.path).test(call.path)) continue;
      if (match.body !== undefined && !new RegExp(match.body).test(call.body)) continue;
      entry.matched++;
      if (entry.matched <= skip || entry.hits >= times) continue;
      entry.hits++;
      return entry.rule;
    }
    return undefined;
  }
}

/** A call's name for counting: its ids and query away. `GET /network/v2.0/ports/{id}`. */
export function callName(method: string, path: string): string {
  const plain = path.split("?")[0]!
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b/g, "{id}");
  return `${method} ${plain}`;
}
