// What a step gets and what it answers.
import type {
  FloatingIPStatus,
  IPsecGateway,
  IPsecGatewayStatus,
  PortStatus,
  Reason,
} from "../api/ipsec_gateway.ts";
import type { ConditionType } from "../api/ipsec_gateway.ts";
import type { KubeClient } from "../kube/client.ts";
import type { Node } from "../kube/kinds.ts";
import type { OpenStack } from "../openstack/contract.ts";
import type { Log } from "../process/log.ts";
import type { Clouds } from "./clouds.ts";
import type { GatewayOptions } from "./options.ts";

/** What a step answers. A fault that it did not expect is a thrown error. */
export type Outcome =
  /** It is so. */
  | { readonly kind: "done"; readonly reason?: Reason; readonly message?: string }
  /** Nothing is wrong, but something has to happen first. `pollMs`: look again then; without it a watch ends the wait. */
  | { readonly kind: "waiting"; readonly reason: Reason; readonly message: string; readonly pollMs?: number }
  /** It cannot be done now. `message` says which object, what is wrong and what to do. */
  | { readonly kind: "failed"; readonly reason: Reason; readonly message: string; readonly retryMs?: number };

/** A peer's addresses as they are now: its own when it is one, what DNS says when it is a name. */
export type PeerAddresses = ReadonlyMap<string, readonly string[]>;

/** What the steps have found out so far in this reconcile; each fills in its own part. */
export interface Facts {
  peers?: PeerAddresses;
  cloud?: OpenStack;
  serviceCIDR?: string;
  securityGroupID?: string;
  port?: PortStatus;
  nodeName?: string;
  floatingIP?: FloatingIPStatus;
  /** Set when the pinned address is seen on another port: configuration is rendered ahead, nothing runs. */
  awaitingFloatingIP?: boolean;
  /** Set when the address that the status names is seen not to be ours any more. */
  floatingIPLost?: boolean;
  exposures?: NonNullable<IPsecGatewayStatus["exposures"]>;
  reverseExposures?: NonNullable<IPsecGatewayStatus["reverseExposures"]>;
  attachment?: string;
}

/** What all gateways share. */
export interface GatewayDeps {
  readonly kube: KubeClient;
  readonly clouds: Clouds;
  readonly options: GatewayOptions;
  /** Nodes as the cache has them. */
  readonly nodes: () => readonly Node[];
  /** Gateways as the cache has them. */
  readonly gateways: () => readonly IPsecGateway[];
  /** Address of the API server as pods see it; undefined outside of a cluster. */
  readonly apiServer: string | undefined;
  /** IPv4 addresses of a name. Rejects with an error that says why there are none. */
  readonly resolve: (host: string, options: { signal: AbortSignal }) => Promise<readonly string[]>;
  /** Runs one such piece of work at a time, over all gateways: what two must not decide at once. */
  readonly oneAtATime: <T>(run: () => Promise<T>) => Promise<T>;
  readonly now: () => Date;
  readonly log: Log;
}

/** One reconcile of one gateway. */
export interface GatewayContext extends GatewayDeps {
  readonly gateway: IPsecGateway;
  readonly facts: Facts;
  readonly signal: AbortSignal;
  /** Writes the facts so far into the status: before anything that must not be forgotten. */
  readonly saveFacts: () => Promise<void>;
}

/** One step of the list in steps.ts. */
export interface Step {
  readonly name: string;
  /** The condition that it decides; two steps may share one, and then both have to be done. */
  readonly condition?: ConditionType;
  /** Also run when the pinned floating IP is still elsewhere. */
  readonly ahead?: boolean;
  run(context: GatewayContext): Promise<Outcome>;
}

/** A message of an error, without "Error:". */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
