/**
 * The connection of a pod, from the files of its ServiceAccount. For both executables; the status-agent uses only
 * this one, which is why nothing here may import `@kubernetes/client-node`.
 */
import type { KubeConnection } from "./connection.ts";

/** Where the kubelet puts token, CA and namespace (Kubernetes docs, "Accessing the API from within a Pod"). */
export const SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";

/** The kubelet rotates tokens long before they expire; client-go reads the file again as often. */
const TOKEN_AGE_MS = 60_000;

export interface InClusterOptions {
  /** The ServiceAccount's directory. */
  directory?: string;
  /** The environment, for `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`. */
  env?: (name: string) => string | undefined;
  /** Monotonic milliseconds. */
  now?: () => number;
}

/** Whether this process seems to run in a pod. */
export function isInCluster(env: (name: string) => string | undefined = Deno.env.get): boolean {
  return Boolean(env("KUBERNETES_SERVICE_HOST"));
}

/**
 * The connection of this pod. Token and CA are read again every minute, and at once when the API server refused them.
 *
 * @throws Error when the environment or a file is missing; its message names which.
 */
export async function inClusterConnection({
  directory = SERVICE_ACCOUNT_DIR,
  env = Deno.env.get,
  now = () => performance.now(),
}: InClusterOptions = {}): Promise<KubeConnection> {
  const host = env("KUBERNETES_SERVICE_HOST");
  const port = env("KUBERNETES_SERVICE_PORT") ?? "443";
  if (!host) {
    throw new Error("Cannot find the API server: KUBERNETES_SERVICE_HOST is not set, so this is not a pod");
  }
  const file = async (name: string) => {
    try {
      return (await Deno.readTextFile(`${directory}/${name}`)).trim();
    } catch (cause) {
      throw new Error(`Cannot read the ServiceAccount's ${name} at ${directory}/${name}`, { cause });
    }
  };
  const read = async () => {
    const [token, ca] = await Promise.all([file("token"), file("ca.crt")]);
    return { headers: { authorization: `Bearer ${token}` }, tls: { caCerts: [ca] } };
  };
  let known = { at: now(), credentials: await read() };
  return {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    namespace: await file("namespace"),
    async credentials({ fresh = false } = {}) {
      if (fresh || now() - known.at > TOKEN_AGE_MS) {
        const at = now();
        known = { at, credentials: await read() };
      }
      return known.credentials;
    },
  };
}
