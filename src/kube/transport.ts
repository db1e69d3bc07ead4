/** One HTTP exchange with the API server, authenticated. No retries, no meaning: that is `client.ts`. */
import type { Credentials, KubeConnection } from "./connection.ts";

export interface Exchange {
  method: string;
  /** Path from the root, with its query. */
  path: string;
  headers?: Readonly<Record<string, string>> | undefined;
  body?: string | undefined;
}

export interface Transport extends Disposable {
  /**
   * Sends; resolves with any answer, whose body must be read or cancelled. `fresh` reads the credentials anew.
   *
   * @throws Error when there are no credentials; TypeError when there is no answer; the signal's reason.
   */
  send(exchange: Exchange, options: { signal: AbortSignal; fresh?: boolean }): Promise<Response>;
}

/**
 * A transport with its own connections.
 *
 * HTTP/1.1 on purpose: with HTTP/2 all calls share one connection, and when that goes silent (a lost node, a NAT that
 * forgot) each of them runs into its deadline; with HTTP/1.1 an aborted call takes its own connection with it.
 */
export function createTransport(connection: KubeConnection, doFetch: typeof fetch = fetch): Transport {
  let http: { client: Deno.HttpClient; tls: string } | undefined;

  /** The client for this TLS material: a new one only when the material changed (rotated files). */
  function httpClient({ tls }: Credentials): Deno.HttpClient {
    const id = JSON.stringify([tls.caCerts, tls.cert, tls.key]);
    if (http?.tls === id) return http.client;
    http?.client.close();
    const client = Deno.createHttpClient({
      http1: true,
      http2: false,
      ...connection.proxy ? { proxy: { url: connection.proxy } } : {},
      ...tls.caCerts ? { caCerts: tls.caCerts } : {},
      ...tls.cert && tls.key ? { cert: tls.cert, key: tls.key } : {},
    });
    http = { client, tls: id };
    return client;
  }

  return {
    async send({ method, path, headers, body }, { signal, fresh = false }) {
      const credentials = await connection.credentials({ fresh });
      return await doFetch(connection.server + path, {
        method,
        headers: { ...headers, ...credentials.headers },
        ...body === undefined ? {} : { body },
        redirect: "manual",
        signal,
        client: httpClient(credentials),
      });
    },
    [Symbol.dispose]() {
      http?.client.close();
      http = undefined;
    },
  };
}
