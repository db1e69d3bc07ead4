import type { ViciSession } from "../vici/contract.ts";
import { sectionsOf, textOf, type ViciSection } from "../vici/message.ts";
import { type IkeSa, readSas } from "./sa_model.ts";

/** Every SA that charon has, streamed. Rejects as `ViciSession.call()` does. */
export async function pollSas(session: ViciSession, options: { timeoutMs?: number } = {}): Promise<IkeSa[]> {
  const events: ViciSection[] = [];
  // `noblock` skips an IKE_SA that another thread holds; a tunnel would vanish from the list for a moment.
  for await (const event of session.stream("list-sas", "list-sa", undefined, options)) events.push(event);
  return readSas(events);
}

/** The installed traps, as `<connection>/<child>`. */
export async function pollTraps(session: ViciSession): Promise<Set<string>> {
  const traps = new Set<string>();
  for await (const event of session.stream("list-policies", "list-policy", new Map([["trap", "yes"]]))) {
    for (const [key, policy] of sectionsOf(event)) {
      const child = textOf(policy, "child") ?? key, ike = textOf(policy, "ike");
      traps.add(ike === undefined ? key : `${ike}/${child}`);
    }
  }
  return traps;
}
