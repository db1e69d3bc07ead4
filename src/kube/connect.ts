/** Which API server is ours: for the controller, which also runs outside of a cluster. */
import type { KubeConnection } from "./connection.ts";
import { inClusterConnection, isInCluster } from "./in_cluster.ts";

export interface ConnectOptions {
  /** Path of a kubeconfig; else `$KUBECONFIG`, else the pod's ServiceAccount, else `~/.kube/config`. */
  kubeconfig?: string | undefined;
  context?: string | undefined;
  env?: (name: string) => string | undefined;
}

/**
 * The connection that the options and the environment name. In a pod `@kubernetes/client-node` stays unloaded.
 *
 * @throws Error that says what was looked for.
 */
export async function findConnection(
  { kubeconfig, context, env = Deno.env.get }: ConnectOptions = {},
): Promise<KubeConnection> {
  let files = kubeconfig ? [kubeconfig] : (env("KUBECONFIG") ?? "").split(":").filter((file) => file !== "");
  if (files.length === 0) {
    if (isInCluster(env)) return await inClusterConnection({ env });
    const home = env("HOME");
    if (!home) {
      throw new Error(
        "Cannot find the API server: no kubeconfig is given, KUBECONFIG is not set, this is not a pod",
      );
    }
    files = [`${home}/.kube/config`];
  }
  const { kubeconfigConnection } = await import("./kubeconfig.ts");
  return kubeconfigConnection({ files, context });
}
