/** Where the API server is, and how to prove who we are. Built by `in_cluster.ts` or `kubeconfig.ts`. */

/** PEM texts for TLS; no `caCerts` means the system's authorities. */
export interface TlsMaterial {
  caCerts?: string[] | undefined;
  cert?: string | undefined;
  key?: string | undefined;
}

/** Headers that authenticate, and the TLS material; never logged. */
export interface Credentials {
  headers: Readonly<Record<string, string>>;
  tls: TlsMaterial;
}

export interface KubeConnection {
  /** Base URL without a slash at its end, for instance `https://10.0.0.1:443`. */
  readonly server: string;
  /** The namespace of the pod, or of the kubeconfig's context. */
  readonly namespace: string;
  /** URL of an HTTP or SOCKS5 proxy on the way. */
  readonly proxy?: string | undefined;
  /**
   * Asked before each call, so it must be cheap. `fresh` says that the last ones were refused or the connection
   * failed: read them from their source again.
   *
   * @throws Error when they can't be had (a file is gone, the exec plugin failed).
   */
  credentials(options?: { fresh?: boolean }): Promise<Credentials>;
}
