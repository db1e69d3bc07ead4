// A driver of one daemon of a pair, and the connections of both sides.
import { type Daemon, startDaemon } from "../src/charon/daemon.ts";
import {
  type Desired,
  type DesiredConnection,
  type DesiredKey,
  startActionOf,
} from "../src/charon/desired.ts";
import type { TunnelState } from "../src/charon/sa_model.ts";
import { createLog } from "../src/process/log.ts";
import { type SwanctlLiteral, swanctlSection } from "../src/swanctl/model.ts";
import { parseSwanctl } from "../src/swanctl/parse.ts";
import { renderSwanctl } from "../src/swanctl/render.ts";
import { translateConnections } from "../src/swanctl/translate.ts";
import { section, sectionOf, sectionsOf, textOf } from "../src/vici/message.ts";
import { type Charon, eventually, type Pair, sasOf, startPair, withVici } from "./charon_pair.ts";

/** The id of the one key. */
export const KEY_ID = "ipsec.bnerd.net/gw";
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** One side of tunnel N. The partner's id is pN.test, ours gw.test. */
export function connection(
  n: number,
  ours: boolean,
  more: SwanctlLiteral = {},
  child: SwanctlLiteral = {},
): SwanctlLiteral {
  const [us, them] = [`gw.test`, `p${n}.test`];
  const [here, there] = [[`10.101.${n}.0/24`], [`10.102.${n}.0/24`]];
  return {
    version: 2,
    mobike: false,
    encap: true,
    unique: "replace",
    local_addrs: [ours ? "192.0.2.1" : "192.0.2.2"],
    remote_addrs: [ours ? "192.0.2.2" : "192.0.2.1"],
    proposals: ["aes128gcm16-prfsha256-x25519"],
    dpd_delay: "2s",
    local: { auth: "psk", id: ours ? us : them },
    remote: { auth: "psk", id: ours ? them : us },
    children: {
      [`t${n}-net`]: {
        esp_proposals: ["aes128gcm16"],
        local_ts: ours ? here : there,
        remote_ts: ours ? there : here,
        start_action: ours ? "start" : "none",
        close_action: "none",
        ...child,
      },
    },
    ...more,
  };
}

/** Through text and back, as the agent gets it. */
function desiredConnections(literals: Record<string, SwanctlLiteral>): DesiredConnection[] {
  const text = renderSwanctl(swanctlSection({ connections: literals }));
  return translateConnections(parseSwanctl(text)).map(({ name, message }) => ({
    name,
    message,
    keyId: KEY_ID,
    children: sectionsOf(sectionOf(message, "children")).map(([child, body]) => ({
      name: child,
      startAction: startActionOf(textOf(body, "start_action")),
    })),
  }));
}

/** Gives the partner its side of the tunnels and a key for them. */
export async function loadPartner(
  pair: Pair,
  tunnels: readonly number[],
  { key = "secret-1", more = {} as SwanctlLiteral, child = {} as SwanctlLiteral } = {},
): Promise<void> {
  await withVici(pair.theirs, async (session) => {
    await session.call("load-shared", section({ id: "k", type: "IKE", data: key, owners: ["gw.test"] }));
    for (
      const { name, message } of desiredConnections(
        Object.fromEntries(tunnels.map((n) => [`t${n}`, connection(n, false, more, child)])),
      )
    ) {
      await session.call("load-conn", new Map([[name, message]]));
    }
  });
}

/** A driver of our charon whose desired state the test changes. */
export class Agent implements AsyncDisposable {
  readonly log: string[] = [];
  key: string | undefined = "secret-1";
  connections: Record<string, SwanctlLiteral> = {};
  states = 0;
  readonly #abort = new AbortController();
  readonly daemon: Daemon;

  constructor(
    pair: Pair,
    connections: Record<string, SwanctlLiteral>,
    { tickMs = 2_000, key = "secret-1" as string | undefined } = {},
  ) {
    this.connections = connections;
    this.key = key;
    this.daemon = startDaemon({
      socketPath: pair.ours.socket,
      digestPath: `${pair.folder}/digests.json`,
      desired: () => Promise.resolve(this.desired()),
      tickMs,
      log: createLog({ level: "debug", write: (line) => this.log.push(line) }),
      signal: this.#abort.signal,
      onState: () => {
        this.states++;
        return Promise.resolve();
      },
    });
  }

  desired(): Desired {
    const owners = Object.keys(this.connections).map((name) => `p${name.slice(1)}.test`);
    const key: DesiredKey = {
      id: KEY_ID,
      owners,
      read: () =>
        this.key === undefined
          ? Promise.reject(new Deno.errors.NotFound())
          : Promise.resolve(bytes(this.key)),
    };
    return { connections: desiredConnections(this.connections), keys: [key], keyPrefix: "ipsec.bnerd.net/" };
  }

  tunnel(name: string): TunnelState | undefined {
    return this.daemon.state.tunnels.find((tunnel) => tunnel.name === name);
  }

  /** How often a message was logged. */
  logged(message: string): number {
    return this.log.filter((line) => JSON.parse(line).msg === message).length;
  }

  established(seconds: number, ...names: string[]): Promise<unknown> {
    return eventually(
      `${names.join()} established`,
      seconds,
      () => names.every((name) => this.tunnel(name)?.state === "ESTABLISHED"),
    )
      .catch((error) => {
        throw new Error(`${error.message}\n${this.log.slice(-15).join("\n")}`);
      });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort();
    await this.daemon.done;
  }
}

/** Ids of the IKE_SAs and CHILD_SAs of one tunnel. */
export async function ids(charon: Charon, name: string): Promise<string> {
  const sas = (await sasOf(charon)).filter((sa) => sa.name === name);
  return JSON.stringify(sas.map((sa) => [sa.id, sa.children.map((child) => child.id)]));
}

/** Tunnel 1 alone, our side. */
export const one: Record<string, SwanctlLiteral> = { t1: connection(1, true) };

/** A test with a pair of its own. */
export function pairTest(name: string, body: (pair: Pair) => Promise<void>): void {
  Deno.test(name, async () => {
    await using pair = await startPair();
    await body(pair);
  });
}
