// Generated from crds/ by `deno task gen`; do not edit.
/**
 * What the gateway should be.
 */
export interface IPsecGatewaySpec {
  /**
   * Where in OpenStack the gateway lives. Each field defaults to what the operator was installed with.
   */
  openstack?: {
    /**
     * Secret in the gateway's namespace with a key clouds.yaml (and, for a private CA, a key cacert). Attaching a port to a node needs credentials of the project that the nodes' servers are in. To change credentials, change the Secret's content.
     */
    cloudSecretRef?: {
      /**
       * Name of the Secret.
       */
      name: string;
    };
    /**
     * Name of the cloud inside clouds.yaml.
     */
    cloud?: string;
    /**
     * UUID of the network that the gateway's port is made on.
     */
    networkID?: string;
    /**
     * UUID of the subnet of that network; by default its first IPv4 subnet.
     */
    subnetID?: string;
    /**
     * UUID of the external network that the floating IP comes from.
     */
    externalNetworkID?: string;
  };
  /**
   * The gateway's public side.
   */
  endpoint?: {
    /**
     * An existing floating IP to use, owned by you: the operator associates it and, at the end, disassociates it, but never deletes it. While it sits on another port the gateway waits. By default a new one is made.
     */
    floatingIP?: string;
    /**
     * Our IKE identity. Defaults to the floating IP.
     */
    localID?: string;
  };
  /**
   * A /24 of the operator's pool that the gateway must get (a migrated partner knows the old one). By default the lowest free one.
   */
  serviceCIDR?: string;
  /**
   * Where the pre-shared keys are.
   */
  psk: {
    /**
     * Secret in the gateway's namespace. Its bytes are the key, less one trailing newline; 0x and 0s prefixes are not decoded.
     */
    secretName: string;
    /**
     * Key inside the Secret that all tunnels use unless they name their own.
     */
    key: string;
  };
  /**
   * nat: partners reach exposures on addresses of the service CIDR, the cluster reaches partners through Services. routed: the tunnels' local subnets are routed to the gateway without NAT.
   */
  mode: "nat" | "routed";
  /**
   * What partners may reach, each on an address of the service CIDR.
   */
  exposures?: {
    /**
     * Name of the exposure.
     */
    name: string;
    /**
     * Address of the service CIDR that partners use. By default the lowest free one.
     */
    ip?: string;
    /**
     * Port that partners use.
     */
    port: number;
    /**
     * Transport protocol.
     */
    protocol: "TCP" | "UDP";
    /**
     * Where the traffic goes, a Service of the gateway's namespace or an address.
     */
    target: {
      /**
       * A Service with a ClusterIP.
       */
      service?: {
        /**
         * Name of the Service.
         */
        name: string;
        /**
         * Port of the Service.
         */
        port: number;
      };
      /**
       * An IPv4 address reachable from the gateway pod.
       */
      address?: string;
      /**
       * Port at that address.
       */
      port?: number;
    };
  }[];
  /**
   * What the cluster may reach at partners, each as a Service <gateway>-<name> in the gateway's namespace.
   */
  reverseExposures?: {
    /**
     * Name of the reverse exposure.
     */
    name: string;
    /**
     * Port of the Service.
     */
    port: number;
    /**
     * Transport protocol.
     */
    protocol: "TCP" | "UDP";
    /**
     * Address of the host behind the partner; inside a tunnel's remote subnets.
     */
    remoteAddress: string;
    /**
     * Port at that host.
     */
    remotePort: number;
  }[];
  /**
   * MTU inside the tunnels. Defaults to the port's MTU less the overhead of ESP in UDP.
   */
  mtu?: number;
  /**
   * TCP MSS that connections through the tunnels are clamped to. Defaults to the tunnel's MTU less 40.
   */
  mss?: number;
  /**
   * The tunnels, each to one partner device.
   */
  tunnels: {
    /**
     * Name of the tunnel; also the name of the connection in strongSwan.
     */
    name: string;
    /**
     * The partner's device.
     */
    peer: {
      /**
       * IPv4 address or FQDN of the partner's device.
       */
      address: string;
      /**
       * The partner's IKE identity. Defaults to peer.address.
       */
      id?: string;
      /**
       * UDP port that the partner's device listens on for IKE.
       */
      port: number;
      /**
       * Where the partner's packets really come from, when that is not peer.address (an FQDN, a NAT on their side). The security group admits these.
       */
      sourceCIDRs?: string[];
    };
    /**
     * A key of its own for this tunnel.
     */
    psk?: {
      /**
       * Key inside the Secret of spec.psk.
       */
      key: string;
    };
    /**
     * Our side's subnets (local traffic selector). In mode nat they default to the service CIDR.
     */
    localSubnets?: string[];
    /**
     * The partner's subnets (remote traffic selector).
     */
    remoteSubnets?: string[];
    /**
     * Several CHILD_SAs, for policy-based peers that want one per pair of subnets.
     */
    children?: {
      /**
       * Name of the CHILD_SA.
       */
      name: string;
      /**
       * Our side's subnets. In mode nat they default to the service CIDR.
       */
      localSubnets?: string[];
      /**
       * The partner's subnets.
       */
      remoteSubnets: string[];
      /**
       * ESP settings of this CHILD_SA; they replace the tunnel's.
       */
      esp?: {
        /**
         * ESP proposals in strongSwan's notation.
         */
        proposals?: string[];
        /**
         * Time after which the CHILD_SA is rekeyed, such as 1h.
         */
        rekeyTime?: string;
      };
    }[];
    /**
     * IKE settings.
     */
    ike: {
      /**
       * Version of IKE.
       */
      version: 1 | 2;
      /**
       * IKE proposals in strongSwan's notation, such as aes256gcm16-prfsha256-ecp256.
       */
      proposals?: string[];
      /**
       * Time after which the IKE_SA is rekeyed, such as 4h.
       */
      rekeyTime?: string;
      /**
       * Time without traffic from the peer after which its liveness is checked; 0s turns it off.
       */
      dpdDelay: string;
      /**
       * force: ESP always inside UDP 4500. auto: when a NAT is seen, which is always so behind a floating IP.
       */
      encapsulation: "auto" | "force";
      /**
       * Fragment large IKE messages.
       */
      fragmentation: boolean;
    };
    /**
     * ESP settings.
     */
    esp?: {
      /**
       * ESP proposals in strongSwan's notation, such as aes256gcm16-ecp256.
       */
      proposals?: string[];
      /**
       * Time after which the CHILD_SA is rekeyed, such as 1h.
       */
      rekeyTime?: string;
    };
    /**
     * start: bring the tunnel up and keep it up. trap: bring it up when traffic wants it. none: wait for the partner.
     */
    startAction: "start" | "trap" | "none";
  }[];
  /**
   * Labels of the nodes that the gateway pod may run on.
   */
  nodeSelector?: {
    [k: string]: string;
  };
  /**
   * Tolerations of the gateway pod.
   */
  tolerations?: {
    /**
     * Key of the taint.
     */
    key?: string;
    /**
     * How the value is compared.
     */
    operator?: "Exists" | "Equal";
    /**
     * Value of the taint.
     */
    value?: string;
    /**
     * Effect of the taint.
     */
    effect?: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
    /**
     * Seconds that NoExecute is tolerated.
     */
    tolerationSeconds?: number;
  }[];
  /**
   * Resources of the strongswan container.
   */
  resources?: {
    /**
     * What is reserved.
     */
    requests?: {
      [k: string]: number | string;
    };
    /**
     * What it may use at most.
     */
    limits?: {
      [k: string]: number | string;
    };
  };
  /**
   * Other images than the operator's. Refused (NotAllowed) unless the operator runs with --allow-image-override.
   */
  images?: {
    /**
     * Image of the strongswan and init-nat containers.
     */
    strongswan?: string;
    /**
     * Image of the status-agent container.
     */
    statusAgent?: string;
  };
}
/**
 * What is so. tunnels, agent and dataPlane are written by the status-agent in the gateway pod, everything else by the controller.
 */
export interface IPsecGatewayStatus {
  /**
   * Generation of the spec that the controller saw last.
   */
  observedGeneration?: number;
  /**
   * One condition per step, in the order of the steps. A step that was never reached has none.
   */
  conditions?: {
    /**
     * Validated, Allocated, PortReady, PortAttached, FIPAttached, RoutingReady, ConfigRendered or DeploymentReady.
     */
    type: string;
    /**
     * Whether it is so.
     */
    status: "True" | "False" | "Unknown";
    /**
     * One word that says why.
     */
    reason: string;
    /**
     * Which object, what is wrong, what to do.
     */
    message: string;
    /**
     * When the status changed last.
     */
    lastTransitionTime: string;
    /**
     * Generation of the spec that this was seen with.
     */
    observedGeneration?: number;
  }[];
  /**
   * The gateway's /24.
   */
  serviceCIDR?: string;
  /**
   * The node that the port is attached to.
   */
  nodeName?: string;
  /**
   * UUID of the security group.
   */
  securityGroupID?: string;
  /**
   * The gateway's port.
   */
  port?: {
    /**
     * UUID.
     */
    id?: string;
    /**
     * Its address.
     */
    fixedIP?: string;
    /**
     * Length of its subnet's prefix.
     */
    prefixLength?: number;
    /**
     * Its subnet's gateway.
     */
    gatewayIP?: string;
    /**
     * Its MAC address.
     */
    macAddress?: string;
    /**
     * Its network's MTU.
     */
    mtu?: number;
  };
  /**
   * The gateway's floating IP.
   */
  floatingIP?: {
    /**
     * UUID.
     */
    id?: string;
    /**
     * The public address.
     */
    address?: string;
    /**
     * Whether it is yours (spec.endpoint.floatingIP) and outlives the gateway.
     */
    pinned?: boolean;
  };
  /**
   * Driver that carries the packets.
   */
  dataPlane?: "xfrm" | "libipsec";
  /**
   * Addresses that partners use.
   */
  exposures?: {
    /**
     * Name of the exposure.
     */
    name: string;
    /**
     * Address of the service CIDR.
     */
    address?: string;
    /**
     * Port.
     */
    port?: number;
  }[];
  /**
   * Services that the cluster uses.
   */
  reverseExposures?: {
    /**
     * Name of the reverse exposure.
     */
    name: string;
    /**
     * Name of the Service.
     */
    serviceName?: string;
  }[];
  /**
   * The tunnels at a glance.
   */
  summary?: {
    /**
     * How many tunnels the spec has.
     */
    tunnels?: number;
    /**
     * How many are up, or Unknown when the status-agent has not reported for two minutes.
     */
    established?: string;
    /**
     * True: all conditions and all tunnels that should be up are. Unknown: the status-agent has not reported for two minutes.
     */
    ready?: "True" | "False" | "Unknown";
  };
  /**
   * State of each tunnel, by the status-agent.
   */
  tunnels?: {
    /**
     * Name of the tunnel.
     */
    name: string;
    /**
     * State of the tunnel's CHILD_SAs, the worst of them. ROUTED: an idle trap. UNKNOWN: strongSwan does not answer.
     */
    state?: "DOWN" | "CONNECTING" | "ESTABLISHED" | "REKEYING" | "ROUTED" | "UNKNOWN";
    /**
     * State of the IKE_SA in strongSwan's words.
     */
    ikeState?: string;
    /**
     * When the state changed last.
     */
    since?: string;
    /**
     * Address that the peer was seen at.
     */
    peerAddress?: string;
    /**
     * What went wrong last; absent while the tunnel is up.
     */
    lastError?: string;
    /**
     * State of each CHILD_SA.
     */
    children?: {
      /**
       * Name of the CHILD_SA.
       */
      name: string;
      /**
       * Its state.
       */
      state?: string;
      /**
       * Bytes received through it.
       */
      bytesIn?: number;
      /**
       * Bytes sent through it.
       */
      bytesOut?: number;
    }[];
  }[];
  /**
   * The status-agent.
   */
  agent?: {
    /**
     * Its pod.
     */
    podName?: string;
    /**
     * When it reported last.
     */
    lastHeartbeatTime?: string;
    /**
     * What it found wrong with the pod it runs in.
     */
    problems?: string[];
  };
}
