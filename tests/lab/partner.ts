// The partner of tests/lab/partner.sh as tests drive it: its connections, its SAs, and the host behind it.

import { attempt, CACHE, type Place, type Ran, run, type RunOptions } from "./command.ts";

export const PARTNER_ADDRESS = "203.0.113.250";
/** The hosts behind the partner; both answer on TCP 8080 and UDP 9053. */
export const PHOST_ADDRESSES = ["192.168.77.10", "192.168.78.10"] as const;
export const PARTNER: Place = "ns:ipo-partner";
export const PHOST: Place = "ns:ipo-phost";

const DIR = `${CACHE}/run/partner`;
const URI = ["--uri", `unix://${DIR}/vici`];

export interface PartnerChild {
  readonly name: string;
  /** Default 192.168.77.0/24. */
  readonly localTs?: readonly string[];
  readonly remoteTs: readonly string[];
  /** Default aes256gcm16. */
  readonly proposals?: readonly string[];
  /** Default none: the gateway initiates. */
  readonly startAction?: "none" | "start" | "trap";
}

export interface PartnerConnection {
  readonly name: string;
  /** The gateway's floating IP, or `%any`. */
  readonly remote: string;
  /** Default: `remote`. */
  readonly remoteId?: string;
  /** Default: the partner's address. */
  readonly localId?: string;
  /** The pre-shared key's bytes, as text. It is written to a file of mode 600 and given to charon, nowhere else. */
  readonly key: string;
  readonly version?: 1 | 2;
  /** Default aes256gcm16-prfsha256-ecp256. */
  readonly proposals?: readonly string[];
  /** Default true. */
  readonly encap?: boolean;
  /** Seconds; default 10. */
  readonly dpdDelay?: number;
  /** Seconds; default charon's. */
  readonly rekeyTime?: number;
  readonly unique?: "no" | "replace" | "keep" | "never";
  readonly children: readonly PartnerChild[];
}

/** The partner's swanctl.conf. Connections whose remote id is shared name their local id with the key as well. */
export function renderPartner(connections: readonly PartnerConnection[]): string {
  const remoteId = (each: PartnerConnection) => each.remoteId ?? each.remote;
  const out: string[] = ["connections {"];
  for (const each of connections) {
    out.push(
      `  ${each.name} {`,
      `    version = ${each.version ?? 2}`,
      `    local_addrs = ${PARTNER_ADDRESS}`,
      `    remote_addrs = ${each.remote}`,
      `    proposals = ${(each.proposals ?? ["aes256gcm16-prfsha256-ecp256"]).join(",")}`,
      `    encap = ${each.encap === false ? "no" : "yes"}`,
      "    mobike = no",
      `    unique = ${each.unique ?? "replace"}`,
      `    dpd_delay = ${each.dpdDelay ?? 10}s`,
      ...(each.rekeyTime === undefined ? [] : [`    rekey_time = ${each.rekeyTime}s`]),
      `    local {`,
      `      auth = psk`,
      `      id = ${each.localId ?? PARTNER_ADDRESS}`,
      `    }`,
      `    remote {`,
      `      auth = psk`,
      `      id = ${remoteId(each)}`,
      `    }`,
      "    children {",
    );
    for (const child of each.children) {
      out.push(
        `      ${child.name} {`,
        `        local_ts = ${(child.localTs ?? ["192.168.77.0/24"]).join(",")}`,
        `        remote_ts = ${child.remoteTs.join(",")}`,
        `        esp_proposals = ${(child.proposals ?? ["aes256gcm16"]).join(",")}`,
        `        start_action = ${child.startAction ?? "none"}`,
        "      }",
      );
    }
    out.push("    }", "  }");
  }
  out.push("}", "secrets {");
  for (const each of connections) {
    const shared = connections.filter((other) => remoteId(other) === remoteId(each)).length > 1;
    const hex = Array.from(new TextEncoder().encode(each.key), (byte) => byte.toString(16).padStart(2, "0"))
      .join("");
    out.push(
      `  ike-${each.name} {`,
      `    id-remote = ${remoteId(each)}`,
      ...(shared ? [`    id-local = ${each.localId ?? PARTNER_ADDRESS}`] : []),
      `    secret = 0x${hex}`,
      "  }",
    );
  }
  out.push("}", "");
  return out.join("\n");
}

/**
 * Makes these the partner's only connections and keys. SAs stay until `terminate`. What the tunnels reach is unreachable
 * without an SA, so that the partner's side fails closed for any remote network, not only the operator's pool.
 */
export async function load(connections: readonly PartnerConnection[]): Promise<void> {
  const file = `${DIR}/swanctl.conf`;
  // Removed first: `mode` counts only for a new file.
  await Deno.remove(file).catch(() => {});
  await Deno.writeTextFile(file, renderPartner(connections), { mode: 0o600 });
  for (
    const remote of new Set(connections.flatMap((each) => each.children.flatMap((child) => child.remoteTs)))
  ) {
    if (remote === "dynamic") continue;
    await run(["ip", "-n", "ipo-partner", "route", "replace", "unreachable", remote, "metric", "9999"]);
  }
  await run(["swanctl", "--load-all", "--noprompt", "--file", file, ...URI]);
}

/** A node of swanctl's raw output: sections, lists and values. */
export type Raw = { [key: string]: string | string[] | Raw };

/** Reads `swanctl --raw`: `name event {key=value section {…} list=[a b]}`, several in a row. */
export function parseRaw(text: string): Raw[] {
  const tokens = text.match(/[^\s={}[\]]+=\[|[^\s={}[\]]+=[^\s{}[\]]*|[^\s={}[\]]+|[{}[\]]/g) ?? [];
  const messages: Raw[] = [];
  const stack: Raw[] = [];
  let name = "";
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!;
    const top = stack.at(-1);
    if (token === "{") {
      const section: Raw = {};
      if (top) top[name] = section;
      else messages.push(section);
      stack.push(section);
    } else if (token === "}") stack.pop();
    else if (token.endsWith("=[")) {
      const list: string[] = [];
      while (++i < tokens.length && tokens[i] !== "]") list.push(tokens[i]!);
      if (top) top[token.slice(0, -2)] = list;
    } else if (token.includes("=")) {
      if (top) top[token.slice(0, token.indexOf("="))] = token.slice(token.indexOf("=") + 1);
    } else name = token;
  }
  return messages;
}

export interface PartnerChildSA {
  readonly name: string;
  readonly state: string;
  readonly uniqueId: string;
  readonly reqId: string;
  readonly localTs: readonly string[];
  readonly remoteTs: readonly string[];
  readonly encap: boolean;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly packetsIn: number;
  readonly packetsOut: number;
}

export interface PartnerSA {
  readonly name: string;
  readonly uniqueId: string;
  readonly version: string;
  readonly state: string;
  readonly localId: string;
  readonly remoteHost: string;
  readonly remotePort: string;
  readonly remoteId: string;
  readonly children: readonly PartnerChildSA[];
}

const string = (value: string | string[] | Raw | undefined) => typeof value === "string" ? value : "";
const list = (value: string | string[] | Raw | undefined) => Array.isArray(value) ? value : [];
const section = (value: string | string[] | Raw | undefined): Raw =>
  typeof value === "object" && !Array.isArray(value) ? value : {};

/** The SAs of a raw `--list-sas`. */
export function readSAs(text: string): PartnerSA[] {
  return parseRaw(text).flatMap((message) =>
    Object.entries(message).map(([name, value]) => {
      const ike = section(value);
      return {
        name,
        uniqueId: string(ike["uniqueid"]),
        version: string(ike["version"]),
        state: string(ike["state"]),
        localId: string(ike["local-id"]),
        remoteHost: string(ike["remote-host"]),
        remotePort: string(ike["remote-port"]),
        remoteId: string(ike["remote-id"]),
        children: Object.values(section(ike["child-sas"])).map((each) => {
          const child = section(each);
          return {
            name: string(child["name"]),
            state: string(child["state"]),
            uniqueId: string(child["uniqueid"]),
            reqId: string(child["reqid"]),
            localTs: list(child["local-ts"]),
            remoteTs: list(child["remote-ts"]),
            encap: child["encap"] === "yes",
            bytesIn: Number(string(child["bytes-in"])),
            bytesOut: Number(string(child["bytes-out"])),
            packetsIn: Number(string(child["packets-in"])),
            packetsOut: Number(string(child["packets-out"])),
          };
        }),
      };
    })
  );
}

/** Every IKE_SA of the partner with its children. */
export async function sas(): Promise<PartnerSA[]> {
  return readSAs(await run(["swanctl", "--list-sas", "--raw", ...URI]));
}

/** True when the partner has an ESTABLISHED IKE_SA with that child INSTALLED. */
export async function isUp(ike: string, child: string): Promise<boolean> {
  return (await sas()).some((sa) =>
    sa.name === ike && sa.state === "ESTABLISHED" &&
    sa.children.some((each) => each.name === child && each.state === "INSTALLED")
  );
}

/** Initiates a child; false when it does not come up within `timeoutMs` (default 10 s). */
export async function initiate(
  ike: string,
  child: string,
  options: { timeoutMs?: number } = {},
): Promise<boolean> {
  const seconds = String(Math.ceil((options.timeoutMs ?? 10_000) / 1000));
  const argv = ["swanctl", "--initiate", "--ike", ike, "--child", child, "--timeout", seconds, ...URI];
  return (await attempt(argv, { timeoutMs: 60_000 })).code === 0;
}

/** Ends an IKE_SA by its connection's name, `forced` without waiting for the peer; false when there is none. */
export async function terminate(ike: string, options: { forced?: boolean } = {}): Promise<boolean> {
  const force = options.forced ? ["--force"] : [];
  return (await attempt(["swanctl", "--terminate", "--ike", ike, "--timeout", "5", ...force, ...URI]))
    .code === 0;
}

/** Rekeys an IKE_SA, or a child. */
export async function rekey(what: { ike: string } | { child: string }): Promise<boolean> {
  const [kind, name] = Object.entries(what)[0]!;
  return (await attempt(["swanctl", "--rekey", `--${kind}`, name, ...URI])).code === 0;
}

/** The partner's charon log, from `offset` characters on (`(await log()).length` marks a point). */
export async function log(offset = 0): Promise<string> {
  return (await Deno.readTextFile(`${DIR}/charon.log`)).slice(offset);
}

/** Runs a command on the host behind the partner. */
export function phost(argv: readonly string[], options: Omit<RunOptions, "in"> = {}): Promise<Ran> {
  return attempt(argv, { ...options, in: PHOST });
}

/** Sends text by socat from the host behind the partner (`TCP:100.64.0.10:8080`) and returns what came back. */
export async function phostSend(
  text: string,
  to: string,
  options: { timeoutMs?: number } = {},
): Promise<string> {
  const seconds = String((options.timeoutMs ?? 5000) / 1000);
  const target = to.startsWith("TCP") ? `${to},connect-timeout=${seconds}` : to;
  const { stdout } = await phost(["timeout", seconds, "socat", "-t", "2", "-", target], {
    input: `${text}\n`,
  });
  return stdout;
}

const USAGE =
  `usage: partner.ts load < connections.json    (a list of PartnerConnection; its keys stay out of argv)
       partner.ts sas | log
       partner.ts initiate IKE CHILD | terminate IKE
       partner.ts send TEXT SOCAT-ADDRESS      from the host behind the partner`;

if (import.meta.main) {
  const [verb, ...args] = Deno.args;
  // deno-lint-ignore no-console -- a command's output
  const say = (text: string) => console.log(text);
  const need = (index: number): string => {
    const value = args[index];
    if (value === undefined) {
      say(USAGE);
      Deno.exit(2);
    }
    return value;
  };
  let ok = true;
  if (verb === "load") await load(JSON.parse(await new Response(Deno.stdin.readable).text()));
  else if (verb === "sas") say(JSON.stringify(await sas(), null, 2));
  else if (verb === "log") say(await log());
  else if (verb === "initiate") ok = await initiate(need(0), need(1));
  else if (verb === "terminate") ok = await terminate(need(0));
  else if (verb === "send") say(await phostSend(need(0), need(1)));
  else need(Infinity);
  Deno.exit(ok ? 0 : 1);
}
