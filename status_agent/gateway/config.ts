// What the controller rendered for this gateway: agent.json and swanctl.conf, read together and checked.
import { type AgentConfig, parseAgentConfig } from "../../src/api/agent_config.ts";
import { parseSwanctl } from "../../src/swanctl/parse.ts";
import { type LoadConnection, translateConnections } from "../../src/swanctl/translate.ts";

/** Both files, parsed. */
export interface GatewayConfig {
  readonly agent: AgentConfig;
  /** One per tunnel, sorted by name. */
  readonly connections: readonly LoadConnection[];
}

/**
 * Both files of `directory`, from one version of the ConfigMap: the kubelet swaps `..data` as a whole, so its target is
 * looked up once.
 *
 * @throws Error a file is missing or can't be used; the message names each problem.
 */
export async function readGatewayConfig(directory: string): Promise<GatewayConfig> {
  const version = await dataDirectory(directory);
  const [agentText, swanctlText] = await Promise.all([
    readText(`${version}/agent.json`),
    readText(`${version}/swanctl.conf`),
  ]);
  return parseGatewayConfig(agentText, swanctlText);
}

async function dataDirectory(directory: string): Promise<string> {
  try {
    return await Deno.realPath(`${directory}/..data`);
  } catch {
    return directory;
  }
}

async function readText(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    throw new Error(`Cannot read ${path}: the controller has not rendered it, or it is not mounted`, {
      cause,
    });
  }
}

/** The two texts, parsed and checked against each other. Throws Error with every problem in its message. */
export function parseGatewayConfig(agentText: string, swanctlText: string): GatewayConfig {
  const { config, problems } = parseAgentConfig(agentText);
  if (!config) throw new Error(problems.join("; "));
  let connections: LoadConnection[];
  try {
    connections = translateConnections(parseSwanctl(swanctlText));
  } catch (cause) {
    const detail = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`Cannot use swanctl.conf: ${detail}`, { cause });
  }
  connections.sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  const tunnels = config.tunnels.map(({ name }) => name).sort();
  const names = connections.map(({ name }) => name);
  if (tunnels.join() !== names.join()) {
    throw new Error(
      `Cannot use agent.json with swanctl.conf: their tunnels differ, [${tunnels.join(", ")}] and [${
        names.join(", ")
      }]`,
    );
  }
  return { agent: config, connections };
}
