// What the operator was started with, as far as gateways are concerned.
import type { DataPlaneChoice } from "../api/agent_config.ts";
import type { GatewayImages } from "./render/deployment.ts";

export interface GatewayOptions {
  /** CIDRs that are cut into /24s, one for each gateway. */
  readonly serviceCIDRPool: readonly string[];
  readonly images: GatewayImages;
  /** Whether spec.images may name others. */
  readonly allowImageOverride: boolean;
  readonly dataPlane: DataPlaneChoice;
  /** Render configuration while a pinned floating IP is still on another port. */
  readonly renderAhead: boolean;
  readonly agentIntervalSeconds: number;
  /** A node that is NotReady for longer than this is left, in milliseconds. */
  readonly nodeGraceMs: number;
  /** What gateways without an own cloudSecretRef use. */
  readonly openstack: {
    /** Path of a clouds.yaml; absent when each gateway has to bring its own credentials. */
    readonly cloudsFile?: string;
    readonly cloud?: string;
    readonly networkID?: string;
    readonly subnetID?: string;
    readonly externalNetworkID?: string;
    /** Networks beside `networkID` that a tenant may name with the operator's credentials. */
    readonly allowedNetworkIDs: readonly string[];
    /** Addresses that a tenant may pin with the operator's credentials. */
    readonly allowedFloatingIPs: readonly string[];
    /** Networks that remote subnets of mode routed may lie in with the operator's credentials: they become routes of a shared router. */
    readonly allowedRoutedCIDRs: readonly string[];
  };
}
