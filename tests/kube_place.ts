// Where our Kubernetes client is tried: a namespace of its own in the lab's cluster, and a way to it that breaks.
import { createKubeClient, type OwnedKubeClient } from "../src/kube/client.ts";
import { findConnection } from "../src/kube/connect.ts";
import type { KubeConnection } from "../src/kube/connection.ts";
import { type ConfigMap, NAMESPACES } from "../src/kube/kinds.ts";
import { create, remove } from "../src/kube/objects.ts";
import { eventually } from "../src/process/eventually.ts";
import { KUBECONFIG } from "./lab/operator.ts";

/** What {@linkcode eventually} may take here. */
export const CLUSTER_SECONDS = { timeoutMs: 20_000 };

export interface World extends AsyncDisposable {
  connection: KubeConnection;
  client: OwnedKubeClient;
  namespace: string;
}

/** A client and a namespace that is deleted afterwards. */
export async function world(): Promise<World> {
  const connection = await findConnection({ kubeconfig: KUBECONFIG });
  const client = createKubeClient(connection);
  const namespace = `kube-test-${crypto.randomUUID().slice(0, 8)}`;
  await create(client, NAMESPACES, { object: { metadata: { name: namespace } } });
  return {
    connection,
    client,
    namespace,
    async [Symbol.asyncDispose]() {
      await remove(client, NAMESPACES, { name: namespace });
      client[Symbol.dispose]();
    },
  };
}

/** A ConfigMap. */
export function map(namespace: string, name: string, data: Record<string, string>): ConfigMap {
  return { metadata: { namespace, name }, data };
}

export interface Relay extends AsyncDisposable {
  readonly connection: KubeConnection;
  /** Connections through it that are open. */
  open(): number;
  /** From now on the open ones carry nothing, and stay open. */
  mute(): void;
  /** Closes the open ones. */
  cut(): void;
}

/** A TCP relay to the API server (whose certificate is for 127.0.0.1 too) that can go silent or cut. */
export function relay(connection: KubeConnection): Relay {
  const { hostname, port } = new URL(connection.server);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const open = new Set<{ ends: Deno.TcpConn[]; muted: boolean }>();
  const pump = async (pair: { muted: boolean }, { from, to }: { from: Deno.TcpConn; to: Deno.TcpConn }) => {
    try {
      for await (const chunk of from.readable) {
        for (let sent = 0; !pair.muted && sent < chunk.length;) sent += await to.write(chunk.subarray(sent));
      }
    } catch {
      // One end was cut.
    } finally {
      try {
        to.close();
      } catch {
        // Closed by the other direction.
      }
    }
  };
  const serving = (async () => {
    for await (const near of listener) {
      const far = await Deno.connect({ hostname, port: Number(port) });
      const pair = { ends: [near, far], muted: false };
      open.add(pair);
      Promise.all([pump(pair, { from: near, to: far }), pump(pair, { from: far, to: near })])
        .finally(() => open.delete(pair));
    }
  })();
  return {
    connection: { ...connection, server: `https://127.0.0.1:${listener.addr.port}` },
    open: () => open.size,
    mute: () => open.forEach((pair) => pair.muted = true),
    cut() {
      for (const { ends } of [...open]) {
        for (const end of ends) {
          try {
            end.close();
          } catch {
            // Gone already.
          }
        }
      }
    },
    async [Symbol.asyncDispose]() {
      this.cut();
      listener.close();
      await serving.catch(() => {});
      await eventually("the relay is closed", () => open.size === 0);
    },
  };
}
