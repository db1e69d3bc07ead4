// Pods from the machine's side: their processes, files and logs, and the SAs of a gateway's charon. Nothing here runs
// inside of a container, so that what is looked at is not changed by looking, and looking goes on while things die.
import type { Pod } from "kubernetes-types/core/v1";
import { run, until } from "./command.ts";
import { getJson, kubectl } from "./operator.ts";
import { type PartnerSA, readSAs } from "./partner.ts";

export interface PodProcess {
  readonly pid: number;
  /** The container's id, 64 hex digits; empty for the sandbox of some runtimes. */
  readonly container: string;
  /** The process's name, at most 15 characters. */
  readonly command: string;
  /** Whether it is its container's process 1. */
  readonly first: boolean;
}

async function readText(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch {
    // Processes end at any time.
    return "";
  }
}

/** Every process of a pod, by its uid, sorted by pid. */
export async function podProcesses(podUid: string): Promise<PodProcess[]> {
  const found: PodProcess[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    // The cgroup's path names pod and container, also in the machine's view.
    const cgroup = await readText(`/proc/${name}/cgroup`);
    if (!cgroup.includes(podUid) && !cgroup.includes(podUid.replaceAll("-", "_"))) continue;
    const status = await readText(`/proc/${name}/status`);
    found.push({
      pid: Number(name),
      container: cgroup.match(/[0-9a-f]{64}/)?.[0] ?? "",
      command: status.match(/^Name:\t(.*)$/m)?.[1] ?? "",
      first: /^NSpid:.*\s1$/m.test(status),
    });
  }
  return found.sort((a, b) => a.pid - b.pid);
}

/** The container's id as the pod's status has it, without its scheme. Throws when there is no such container. */
export function containerID(pod: Pod, container: string): string {
  const id = pod.status?.containerStatuses?.find(({ name }) => name === container)?.containerID;
  if (!id) {
    throw new RangeError(`Cannot find container ${container} of pod ${pod.metadata?.name}: it has no id yet`);
  }
  return id.replace(/^.*:\/\//, "");
}

/** Process 1 of a container. Throws when none is found within 10 s. */
export async function firstProcess(pod: Pod, container: string): Promise<number> {
  const id = containerID(pod, container);
  return await until(`container ${container} of pod ${pod.metadata?.name} has a process`, async () => {
    const all = await podProcesses(pod.metadata?.uid ?? "");
    return all.find((each) => each.container === id && each.first)?.pid;
  }, { timeoutMs: 10_000 });
}

/** Restarts of each container of a pod, by its name. */
export function restarts(pod: Pod): Record<string, number> {
  return Object.fromEntries(
    (pod.status?.containerStatuses ?? []).map(({ name, restartCount }) => [name, restartCount]),
  );
}

/** The running pod of gateway `gw` in a namespace, as the API server has it. */
export async function gatewayPod(namespace: string): Promise<Pod> {
  return await until(`the gateway of ${namespace} has one running pod`, async () => {
    const { items } = await getJson<{ items: Pod[] }>([
      "-n",
      namespace,
      "pod",
      "-l",
      "ipsec.bnerd.net/gateway=gw",
    ]);
    return items.length === 1 && items[0]?.status?.phase === "Running" ? items[0] : undefined;
  }, { timeoutMs: 60_000 });
}

/** The SAs of the charon beside whose supervisor (process 1 of container strongswan) we look. */
export async function charonSas(supervisor: number): Promise<PartnerSA[]> {
  const uri = `unix:///proc/${supervisor}/root/run/ipsec/charon.vici`;
  return readSAs(await run(["swanctl", "--list-sas", "--raw", "--uri", uri], { timeoutMs: 5_000 }));
}

/** True for an IKE_SA that is ESTABLISHED with a child that is INSTALLED. */
export function isUp(sa: PartnerSA): boolean {
  return sa.state === "ESTABLISHED" && sa.children.some(({ state }) => state === "INSTALLED");
}

/** What tells SAs from later ones of the same name: charon numbers every IKE_SA and CHILD_SA anew. */
export function identities(sas: readonly PartnerSA[]): string[] {
  return sas.flatMap((sa) => [
    `${sa.name} IKE_SA ${sa.uniqueId} ${sa.state}`,
    ...sa.children.map((child) => `${sa.name}/${child.name} CHILD_SA ${child.uniqueId} ${child.state}`),
  ]).sort();
}

/** The log of a container of one pod so far. */
export function containerLog(
  pod: Pod,
  container: string,
  options: { previous?: boolean } = {},
): Promise<string> {
  return kubectl([
    "-n",
    pod.metadata?.namespace ?? "",
    "logs",
    pod.metadata?.name ?? "",
    "-c",
    container,
    ...(options.previous ? ["--previous"] : []),
  ]);
}

/** A record of the JSON logs of our executables; `at` is its time in milliseconds since the epoch. */
export interface LogRecord {
  readonly at: number;
  readonly level: string;
  readonly msg: string;
}

/** The records of a JSON log; lines that are none are left out. */
export function readLog(text: string): LogRecord[] {
  return text.split("\n").filter((line) => line.startsWith("{")).map((line) => {
    const record = JSON.parse(line) as LogRecord & { time: string };
    return { ...record, at: Date.parse(record.time) };
  });
}
