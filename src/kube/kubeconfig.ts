/**
 * Connections through `@kubernetes/client-node`: kubeconfig files with all their ways to authenticate, and its typed
 * API over our transport. For the controller only, and loaded only when needed (`connect.ts`): it costs 80 MiB.
 *
 * Its own transport is not used: it opens a new TLS connection for each call, and under Deno its watches end silently
 * after a reset. Its typed models drop fields that they don't know and turn timestamps into `Date`: read with them,
 * write raw JSON.
 */
// The shim comes first: client-node's import fails without it on some releases of Deno.
import "./worker_threads_shim.ts";
import {
  type Configuration,
  createConfiguration,
  KubeConfig,
  type RequestContext,
  ResponseContext,
  ServerConfiguration,
  wrapHttpLibrary,
} from "@kubernetes/client-node";
import { Buffer } from "node:buffer";
import type { RequestOptions } from "node:https";
import type { Credentials, KubeConnection } from "./connection.ts";
import { linkAbort, withDeadline } from "./deadline.ts";
import { createTransport } from "./transport.ts";

export interface KubeconfigOptions {
  /** Paths of the files; the first one's current context wins, as with kubectl. */
  files: readonly string[];
  /** A context of the files instead of their current one. */
  context?: string | undefined;
}

function load({ files, context }: KubeconfigOptions): KubeConfig {
  const config = new KubeConfig();
  for (const [index, file] of files.entries()) {
    const one = new KubeConfig();
    try {
      one.loadFromFile(file);
    } catch (cause) {
      throw new Error(`Cannot load kubeconfig ${file}`, { cause });
    }
    if (index === 0) {
      Object.assign(config, { clusters: one.clusters, users: one.users, contexts: one.contexts });
    } else config.mergeConfig(one, true);
    if (!config.currentContext && one.currentContext) config.setCurrentContext(one.currentContext);
  }
  const names = config.getContexts().map((each) => each.name).sort();
  if (context !== undefined) config.setCurrentContext(context);
  if (!config.getCurrentCluster()) {
    throw new Error(
      `Cannot use context ${JSON.stringify(config.currentContext)} of kubeconfig ${files.join(":")}: ` +
        `it is not there or names no cluster of it; there is ${names.join(", ") || "none"}`,
    );
  }
  return config;
}

/** PEM of one of client-node's TLS options. */
function pem(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  return Buffer.isBuffer(value) ? value.toString("utf8") : String(value);
}

/**
 * The connection of a kubeconfig: certificates, tokens, token files, exec plugins, OIDC, basic authentication,
 * impersonation, proxy.
 *
 * @throws Error when a file can't be read or has no such context, or asks for what Deno can't do (a server's
 * certificate unchecked or checked for another name).
 */
export function kubeconfigConnection(options: KubeconfigOptions): KubeConnection {
  let config = load(options);
  const cluster = config.getCurrentCluster();
  if (!cluster) {
    throw new Error(`Cannot use kubeconfig ${options.files.join(":")}: it has no current cluster`);
  }
  const plain = cluster.server.startsWith("http:");
  if (!plain && cluster.skipTLSVerify) {
    throw new Error(
      `Cannot use cluster ${cluster.name}: insecure-skip-tls-verify is true; give certificate-authority instead`,
    );
  }
  if (cluster.tlsServerName) {
    throw new Error(
      `Cannot use cluster ${cluster.name}: tls-server-name is ${cluster.tlsServerName}, which is not supported`,
    );
  }
  const credentials = async (): Promise<Credentials> => {
    const found: RequestOptions = {};
    // client-node refuses plain HTTP (a `kubectl proxy`) unless it is told that nothing is verified.
    if (plain) config.clusters = config.clusters.map((each) => ({ ...each, skipTLSVerify: true }));
    await config.applyToHTTPSOptions(found);
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(found.headers ?? {})) {
      headers[name.toLowerCase()] = String(value);
    }
    if (found.auth) headers.authorization = `Basic ${Buffer.from(found.auth).toString("base64")}`;
    const ca = pem(found.ca);
    return { headers, tls: { caCerts: ca ? [ca] : undefined, cert: pem(found.cert), key: pem(found.key) } };
  };
  return {
    server: cluster.server.replace(/\/+$/, ""),
    namespace: config.getContextObject(config.currentContext)?.namespace ?? "default",
    proxy: cluster.proxyUrl || undefined,
    async credentials({ fresh = false } = {}) {
      // Loading anew also drops what an exec plugin once said.
      if (fresh) config = load(options);
      try {
        return await credentials();
      } catch (cause) {
        throw new Error(`Cannot authenticate with kubeconfig ${options.files.join(":")}`, { cause });
      }
    },
  };
}

/** A configuration for client-node's typed APIs, and the connections it holds. */
export interface ClientNode extends Disposable {
  /** For instance `new CoreV1Api(configuration)`. */
  readonly configuration: Configuration;
}

/**
 * client-node's typed APIs over `connection` by native `fetch`, each call bounded by `timeoutMs`. Watches and logs
 * that go on are not for this: see `cache.ts`.
 */
export function clientNode(
  connection: KubeConnection,
  { timeoutMs = 30_000, fetch: doFetch }: { timeoutMs?: number; fetch?: typeof fetch } = {},
): ClientNode {
  const transport = createTransport(connection, doFetch);
  const send = async (request: RequestContext): Promise<ResponseContext> => {
    using link = linkAbort(request.getSignal());
    return await withDeadline({ ms: timeoutMs, link }, async (signal) => {
      const body = request.getBody();
      if (body !== undefined && typeof body !== "string") {
        throw new TypeError(`Cannot send a form to ${request.getUrl()}: only JSON bodies are supported`);
      }
      const path = request.getUrl().slice(connection.server.length);
      const answer = await transport.send(
        { method: request.getHttpMethod(), path, headers: request.getHeaders(), body },
        { signal },
      );
      const bytes = Buffer.from(await answer.arrayBuffer());
      return new ResponseContext(answer.status, Object.fromEntries(answer.headers), {
        text: () => Promise.resolve(bytes.toString("utf8")),
        binary: () => Promise.resolve(bytes),
        stream: () => null,
      });
    });
  };
  return {
    configuration: createConfiguration({
      baseServer: new ServerConfiguration(connection.server, {}),
      httpApi: wrapHttpLibrary({ send }),
      // The transport authenticates; without a method client-node only adds nothing.
      authMethods: {},
    }),
    [Symbol.dispose]: () => transport[Symbol.dispose](),
  };
}
