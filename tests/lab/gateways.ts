// Several gateways in one namespace, what their conditions say, and what they have in OpenStack.
import assert from "node:assert/strict";
import {
  CONDITION_TYPES,
  type ConditionType,
  type IPsecGateway,
  type Reason,
} from "../../src/api/ipsec_gateway.ts";
import type { Cloud } from "./cloud.ts";
import { until } from "./command.ts";
import { type Conditions, getJson, kubectl } from "./operator.ts";
import { PARTNER_ADDRESS } from "./partner.ts";

/** Which gateway. */
export interface Place {
  readonly namespace: string;
  readonly name: string;
}

/** Where a gateway has stopped: the one condition that is False, and what its message has to say. */
export interface Stop {
  readonly condition: ConditionType;
  readonly reason: Reason;
  readonly says: readonly RegExp[];
}

/** A gateway with one tunnel to the lab's partner and nothing else; `spec` is laid over it. */
export function plainGateway(
  { namespace, name }: Place,
  spec: Readonly<Record<string, unknown>> = {},
): unknown {
  const tunnels = [{
    name: "berlin",
    peer: { address: PARTNER_ADDRESS },
    remoteSubnets: ["192.168.77.0/24"],
  }];
  return {
    apiVersion: "ipsec.bnerd.net/v1alpha1",
    kind: "IPsecGateway",
    metadata: { name, namespace },
    spec: { psk: { secretName: "keys" }, tunnels, ...spec },
  };
}

export function gatewayAt({ namespace, name }: Place): Promise<IPsecGateway> {
  return getJson<IPsecGateway>(["-n", namespace, "ipsecgateway", name]);
}

/** The conditions in the order of the status. */
export async function conditionsAt(place: Place): Promise<Conditions> {
  const { status } = await gatewayAt(place);
  return Object.fromEntries((status?.conditions ?? []).map(({ type, ...rest }) => [type, rest]));
}

/** An edit that changes nothing but reconciles at once. */
export async function nudge({ namespace, name }: Place): Promise<void> {
  const value = crypto.randomUUID();
  await kubectl(["-n", namespace, "annotate", "ipsecgateway", name, `tests/nudge=${value}`, "--overwrite"]);
}

/**
 * Waits until the gateway has stopped there, then demands that every condition before is True and that none after is
 * there. Returns the message.
 */
export async function stopsAt(place: Place, stop: Stop, { timeoutMs = 120_000 } = {}): Promise<string> {
  let last: Conditions = {};
  const message = await until(`${stop.condition} is False`, async () => {
    last = await conditionsAt(place);
    const found = last[stop.condition];
    const there = found?.status === "False" && found.reason === stop.reason &&
      stop.says.every((pattern) => pattern.test(found.message));
    return there ? found.message : undefined;
  }, { timeoutMs, intervalMs: 250 }).catch((cause: unknown) => {
    throw new Error(
      `Cannot see ${stop.condition}=False/${stop.reason} saying ${
        stop.says.join(", ")
      } of ${place.namespace}/${place.name}: its conditions are ${JSON.stringify(last)}`,
      { cause },
    );
  });
  const at = CONDITION_TYPES.indexOf(stop.condition);
  const expected = CONDITION_TYPES.slice(0, at + 1).map((
    type,
    index,
  ) => [type, index < at ? "True" : "False"]);
  assert.deepEqual(Object.entries(last).map(([type, { status }]) => [type, status]), expected);
  return message;
}

/** What Neutron has of a gateway, found by tag and, for what was never tagged, by name or description. */
export async function ownedCounts(
  cloud: Cloud,
  gateway: IPsecGateway,
): Promise<{ groups: number; ports: number; addresses: number }> {
  const { uid, namespace, name } = gateway.metadata;
  const tags = `ipsec.bnerd.net/uid=${uid}`;
  const called = `ipsec-${namespace}-${name}`;
  const distinct = (lists: readonly (readonly { readonly id: string }[])[]) =>
    new Set(lists.flat().map(({ id }) => id)).size;
  const floating = await cloud.list("floatingips");
  return {
    groups: distinct([
      await cloud.list("security-groups", { tags }),
      await cloud.list("security-groups", { name: called }),
    ]),
    ports: distinct([await cloud.list("ports", { tags }), await cloud.list("ports", { name: called })]),
    addresses:
      floating.filter((one) => one.tags.includes(tags) || one.description.includes(`${namespace}/${name}`))
        .length,
  };
}
