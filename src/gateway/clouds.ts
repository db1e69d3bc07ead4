// Which OpenStack a gateway lives in: its own cloud Secret, or what the operator was installed with. One client for
// each set of credentials, kept while the credentials stay the same, so that gateways share tokens.
import type { IPsecGateway } from "../api/ipsec_gateway.ts";
import { nameOf } from "../api/ipsec_gateway.ts";
import type { KubeClient } from "../kube/client.ts";
import { SECRETS } from "../kube/kinds.ts";
import { get } from "../kube/objects.ts";
import { OpenStackClient } from "../openstack/client.ts";
import { type Cloud, CloudsError, fingerprint, parseClouds } from "../openstack/clouds.ts";
import type { OpenStack, SeenRequest } from "../openstack/contract.ts";
import type { GatewayOptions } from "./options.ts";

/** Credentials that can't be used; the message names the Secret or the file, and what to do. */
export class CredentialsError extends Error {
  override readonly name = "CredentialsError";
  constructor(
    readonly reason: "SecretNotFound" | "CloudCredentialsInvalid",
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

export interface Clouds extends AsyncDisposable {
  /**
   * The client for a gateway. No call is made to OpenStack.
   * @throws CredentialsError
   */
  for(gateway: IPsecGateway, options: { signal: AbortSignal }): Promise<OpenStack>;
}

interface CloudsOptions {
  readonly kube: KubeClient;
  readonly openstack: GatewayOptions["openstack"];
  readonly onRequest?: (seen: SeenRequest) => void;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
}

/** Clients not asked for during this time are closed, in milliseconds. */
const IDLE_MS = 3_600_000;

/** The clients of all gateways. */
export function createClouds({ kube, openstack, onRequest, now = Date.now }: CloudsOptions): Clouds {
  const clients = new Map<string, { client: OpenStackClient; usedAt: number }>();

  async function fromSecret(gateway: IPsecGateway, secretName: string, signal: AbortSignal): Promise<Cloud> {
    const namespace = gateway.metadata.namespace ?? "";
    const where = `Secret ${namespace}/${secretName} (spec.openstack.cloudSecretRef of IPsecGateway ${
      nameOf(gateway)
    })`;
    const secret = await get(kube, SECRETS, { namespace, name: secretName, signal });
    if (!secret) {
      throw new CredentialsError("SecretNotFound", `Cannot find ${where}: create it with a key clouds.yaml`);
    }
    const text = decode(secret.data?.["clouds.yaml"]);
    if (text === undefined) {
      throw new CredentialsError(
        "CloudCredentialsInvalid",
        `Cannot use ${where}: it has no key clouds.yaml: put the file there`,
      );
    }
    const caCert = decode(secret.data?.["cacert"]);
    return parsed(text, where, gateway.spec.openstack?.cloud, caCert);
  }

  async function fromFile(gateway: IPsecGateway): Promise<Cloud> {
    const file = openstack.cloudsFile;
    if (file === undefined) {
      throw new CredentialsError(
        "CloudCredentialsInvalid",
        `Cannot choose a cloud for IPsecGateway ${
          nameOf(gateway)
        }: the operator has no default credentials; set spec.openstack.cloudSecretRef`,
      );
    }
    const where = `the operator's ${file}`;
    let text: string;
    try {
      text = await Deno.readTextFile(file);
    } catch (cause) {
      throw new CredentialsError(
        "CloudCredentialsInvalid",
        `Cannot read ${where}: check the operator's --clouds-file`,
        { cause },
      );
    }
    const caCert = await Deno.readTextFile(file.replace(/[^/]*$/, "cacert")).catch(() => undefined);
    return parsed(text, where, openstack.cloud, caCert);
  }

  function parsed(text: string, where: string, name: string | undefined, caCert: string | undefined): Cloud {
    try {
      return parseClouds(text, {
        ...(name === undefined ? {} : { name }),
        ...(caCert === undefined ? {} : { caCert }),
      });
    } catch (cause) {
      if (!(cause instanceof CloudsError)) throw cause;
      throw new CredentialsError("CloudCredentialsInvalid", `Cannot use ${where}: ${cause.message}`, {
        cause,
      });
    }
  }

  async function closeIdle(at: number): Promise<void> {
    for (const [key, { client, usedAt }] of clients) {
      if (at - usedAt < IDLE_MS) continue;
      clients.delete(key);
      await client[Symbol.asyncDispose]();
    }
  }

  return {
    async for(gateway, { signal }) {
      const secretName = gateway.spec.openstack?.cloudSecretRef?.name;
      const cloud = secretName === undefined
        ? await fromFile(gateway)
        : await fromSecret(gateway, secretName, signal);
      const key = await fingerprint(cloud);
      const usedAt = now();
      const kept = clients.get(key);
      const client = kept?.client ?? new OpenStackClient(cloud, onRequest ? { onRequest } : {});
      clients.set(key, { client, usedAt });
      await closeIdle(usedAt);
      return client;
    },
    async [Symbol.asyncDispose]() {
      for (const { client } of clients.values()) await client[Symbol.asyncDispose]();
      clients.clear();
    },
  };
}

/** Bytes of a Secret as text; undefined when there are none. */
function decode(base64: string | undefined): string | undefined {
  if (!base64) return undefined;
  return new TextDecoder().decode(Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)));
}
