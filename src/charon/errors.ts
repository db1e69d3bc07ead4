import { sectionOf, sectionsOf, textOf, type ViciSection } from "../vici/message.ts";

/** What charon's log or an alert says about a tunnel. */
export interface Cause {
  readonly tunnel: string;
  /** In a network engineer's words. */
  readonly text: string;
}

/** Messages of charon (5.9.8, level 0 and 1) and what they mean. */
const MEANINGS: readonly (readonly [RegExp, string])[] = [
  [
    /received AUTHENTICATION_FAILED notify/,
    "The peer rejects our authentication: the pre-shared key or our identity is not what it expects",
  ],
  [
    /MAC mismatched|calculated HASH does not match/,
    "The pre-shared keys do not match: the peer uses another one",
  ],
  [
    /no shared key found for/,
    "The peer identifies itself by another identity than the configured one: no pre-shared key is found for it",
  ],
  [
    /IDr .* (?:doesn't|does not) match|constraint check failed: identity|identity .* required/,
    "The peer identifies itself by another identity than the configured one",
  ],
  [
    /NO_PROPOSAL_CHOSEN notify, no CHILD_SA built|no acceptable (?:ESP|AH|proposal).*CHILD|failed to establish CHILD_SA.*proposal/,
    "The ESP proposals do not match: the peer accepts none of ours",
  ],
  [
    /NO_PROPOSAL_CHOSEN notify error|received proposals unacceptable|received proposals inacceptable/,
    "The IKE proposals do not match: the peer accepts none of ours",
  ],
  [
    /TS_UNACCEPTABLE|traffic selectors .* (?:un|in)acceptable/,
    "The traffic selectors do not match: local and remote subnets differ from the peer's",
  ],
  [/INVALID_KE_PAYLOAD.*failed|DH group .* unacceptable/, "The Diffie-Hellman groups do not match"],
  [
    /no matching peer config found|no IKE config found/,
    "The peer comes from an address or with an identity that no tunnel is configured for",
  ],
  [
    /establishing IKE_SA failed, peer not responding|peer not responding, trying again|giving up after \d+ retransmits/,
    "The peer does not answer: check its address, and that UDP 500 and 4500 pass in both directions",
  ],
  [/Network is unreachable|No route to host/, "There is no route to the peer"],
  [
    /unable to install|error installing route with policy|unable to add SAD entry/,
    "The kernel refuses the SA or its policy",
  ],
  [/unable to resolve|name resolution/i, "The peer's name can't be resolved"],
];

const ALERTS: Readonly<Record<string, string>> = {
  "local-auth-failed": MEANINGS[0]![1],
  "peer-auth-failed": "The peer fails to authenticate: its pre-shared key or its identity is another one",
  "peer-init-unreachable": "The peer does not answer: check its address, and that UDP 500 and 4500 pass",
  "peer-addr-failed": "The peer's name can't be resolved",
  "retransmit-send-timeout": "The peer does not answer: check its address, and that UDP 500 and 4500 pass",
  "proposal-mismatch-ike": "The IKE proposals do not match",
  "proposal-mismatch-child": "The ESP proposals do not match",
  "ts-mismatch": "The traffic selectors do not match: local and remote subnets differ from the peer's",
  "install-child-sa-failed": "The kernel refuses the SA",
  "install-child-policy-failed": "The kernel refuses the policy of the SA",
};

/** The cause in a `log` event, if it is one and names its IKE_SA. */
export function causeOfLog(event: ViciSection): Cause | undefined {
  const tunnel = textOf(event, "ikesa-name"), message = textOf(event, "msg") ?? "";
  if (tunnel === undefined) return undefined;
  const meaning = MEANINGS.find(([pattern]) => pattern.test(message));
  return meaning && { tunnel, text: meaning[1] };
}

/** The cause in an `alert` event (6.0.3 and later), if it is one and names its IKE_SA. */
export function causeOfAlert(event: ViciSection): Cause | undefined {
  const text = ALERTS[textOf(event, "type") ?? ""];
  const tunnel = sectionsOf(sectionOf(event, "ike-sa"))[0]?.[0];
  return text === undefined || tunnel === undefined ? undefined : { tunnel, text };
}

/** What a `log` event counts as, beside being a cause. */
export function countOfLog(event: ViciSection): "rekey-failure" | "timeout" | undefined {
  const message = textOf(event, "msg") ?? "";
  if (/rekeying (?:of )?.*failed|rekeying failed/i.test(message)) return "rekey-failure";
  return /giving up after \d+ retransmits/.test(message) ? "timeout" : undefined;
}
