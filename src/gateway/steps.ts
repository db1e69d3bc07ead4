// The steps of an IPsecGateway, strictly in this order; the first that is not done ends the reconcile.
import type { Step } from "./context.ts";
import { access } from "./steps/access.ts";
import { allocate } from "./steps/allocate.ts";
import { attach } from "./steps/attach.ts";
import { config } from "./steps/config.ts";
import { deployment } from "./steps/deployment.ts";
import { floatingIP } from "./steps/floating_ip.ts";
import { port } from "./steps/port.ts";
import { routing } from "./steps/routing.ts";
import { securityGroup } from "./steps/security_group.ts";
import { validate } from "./steps/validate.ts";

export const steps: readonly Step[] = [
  validate, //      Validated        the spec, its Secrets, its peers, its cloud
  allocate, //      Allocated        a /24 of the pool
  securityGroup, // PortReady        who may send IKE and ESP to the port
  port, //          PortReady        the Neutron port
  attach, //        PortAttached     on the server of a Ready node
  floatingIP, //    FIPAttached      the public address
  routing, //       RoutingReady     mode routed: routes on the router, address pairs on the port
  config, //        ConfigRendered   NetworkAttachmentDefinition and ConfigMaps
  access, //                         ServiceAccount, Role, NetworkPolicy, Services
  deployment, //    DeploymentReady  the pod
];
