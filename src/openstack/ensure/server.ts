import type { OpenStack } from "../contract.ts";
import { failedTo, isNotFound } from "../errors.ts";
import type { CallOptions } from "../neutron.ts";
import { getServer, listServersNamed, type Server } from "../nova.ts";

export type ResolvedServer =
  | { kind: "found"; id: string; name: string; status: string }
  | { kind: "missing"; why: string };

/**
 * The Nova server of a Kubernetes node: the one of its provider id (`openstack:///UUID` or `openstack://REGION/UUID`),
 * else the only one of the node's name.
 */
export async function resolveServer(
  os: OpenStack,
  options: CallOptions & { providerID?: string; nodeName: string },
): Promise<ResolvedServer> {
  const { nodeName, providerID } = options;
  const call = options.signal ? { signal: options.signal } : {};
  const id = providerID === undefined ? undefined : serverID(providerID);
  if (id !== undefined) {
    try {
      return found(await getServer(os, id, call));
    } catch (error) {
      if (!isNotFound(error)) throw failedTo(`read server ${id} of node ${nodeName}`, error);
      return {
        kind: "missing",
        why: `server ${id} (spec.providerID of node ${nodeName}) is not in the project of the credentials; ` +
          "attaching needs credentials of the nodes' project",
      };
    }
  }
  if (providerID !== undefined && providerID !== "" && !providerID.startsWith("openstack:")) {
    return {
      kind: "missing",
      why: `node ${nodeName} is no OpenStack server: its spec.providerID is "${providerID}"`,
    };
  }
  let servers: Server[];
  try {
    servers = await listServersNamed(os, nodeName, call);
  } catch (error) {
    throw failedTo(`look for the server named ${nodeName}`, error);
  }
  const [first, ...more] = servers;
  if (first !== undefined && more.length === 0) return found(first);
  return {
    kind: "missing",
    why: first === undefined
      ? `no server is named ${nodeName} and the node has no spec.providerID; set it to openstack:///SERVER-ID`
      : `${servers.length} servers are named ${nodeName} (${
        servers.map((one) => one.id).sort().join(", ")
      }); ` +
        "set the node's spec.providerID to openstack:///SERVER-ID",
  };
}

/** The UUID of an OpenStack provider id, lower case, or undefined. */
export function serverID(providerID: string): string | undefined {
  return /^openstack:\/\/[^/]*\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i.exec(providerID)?.[1]
    ?.toLowerCase();
}

function found(server: Server): ResolvedServer {
  return { kind: "found", id: server.id, name: server.name, status: server.status };
}
