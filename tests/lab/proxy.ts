// The fault proxy's client for tests.

import type { Rule, RuleState } from "./proxy/faults.ts";
import type { Log } from "./proxy/main.ts";

export type { Action, Rule, RuleState } from "./proxy/faults.ts";

/** Keystone through the proxy, as the controller's clouds.yaml names it. */
export const PROXY_AUTH_URL = `${Deno.env.get("PROXY_URL") ?? "http://172.30.0.1:5900"}/identity/v3`;

const CONTROL = Deno.env.get("PROXY_CONTROL_URL") ?? "http://127.0.0.1:5901";

async function control<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await fetch(CONTROL + path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) {
    throw new Error(`Cannot ${method} ${path} of the fault proxy: ${response.status} ${text}`);
  }
  return JSON.parse(text);
}

/** Makes these the only rules; their counts start at 0. */
export async function setRules(rules: readonly Rule[]): Promise<void> {
  await control("PUT", "/rules", rules);
}

/** The rules with their counts. */
export function rules(): Promise<RuleState[]> {
  return control("GET", "/rules");
}

/** Removes every rule, and returns nothing of their counts. */
export async function clearRules(): Promise<void> {
  await control("DELETE", "/rules");
}

/** The last calls (default 100), and how often each was made since the proxy's start. */
export function proxyLog(last = 100): Promise<Log> {
  return control("GET", `/log?last=${last}`);
}

/**
 * Runs `body` while these faults are set, then clears them. Throws when the body passed though a fault was not hit: a
 * test of a fault that never happened shows nothing. `body` may ask how often a rule (the first one) was hit so far.
 */
export async function withFault<T>(
  faults: Rule | readonly Rule[],
  body: (hits: (id?: string) => Promise<number>) => Promise<T>,
): Promise<T> {
  const all = Array.isArray(faults) ? faults as readonly Rule[] : [faults as Rule];
  await setRules(all);
  const hits = async (id = all[0]?.id) => (await rules()).find((rule) => rule.id === id)?.hits ?? 0;
  let state: RuleState[];
  let result: T;
  try {
    result = await body(hits);
  } finally {
    state = await rules();
    await clearRules();
  }
  const missed = state.filter((rule) => rule.hits === 0 && rule.action.kind !== "pass");
  if (missed.length) {
    throw new Error(
      `Cannot count this as a test of ${missed.map((rule) => rule.id).join(", ")}: the fault was never hit`,
    );
  }
  return result;
}
