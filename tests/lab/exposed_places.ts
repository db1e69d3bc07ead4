// Everything of pods and namespaces that somebody could read: logs, objects, Events, processes, files that were written.
import type { Pod } from "kubernetes-types/core/v1";
import { nodePlace } from "./command.ts";
import { podProcesses } from "./gateway_pod.ts";
import { latin1 } from "./leak_search.ts";
import { getJson, kubectl, tryKubectl } from "./operator.ts";

/** A text, a character a byte, and where it is from: `log t-1/gw-x strongswan`, `file t-1/gw-x 4711 /run/ipsec/x`. */
export interface Place {
  readonly where: string;
  readonly text: string;
}

/** A file above this is read up to here. */
const MAX_FILE_BYTES = 32 << 20;
/** File systems whose files are the kernel's own, not written ones. */
const KERNEL = /^(proc|sysfs|cgroup2?|devpts|mqueue|securityfs|debugfs|tracefs|bpf|nsfs)$/;

function asText(text: string): string {
  return latin1(new TextEncoder().encode(text));
}

/** The logs of every container of a pod, also of the instance before. */
export async function logsOf(pod: Pod): Promise<Place[]> {
  const { namespace = "", name = "" } = pod.metadata ?? {};
  const places: Place[] = [];
  for (const container of [...pod.spec?.initContainers ?? [], ...pod.spec?.containers ?? []]) {
    for (const previous of [false, true]) {
      const { code, stdout } = await tryKubectl([
        "-n",
        namespace,
        "logs",
        name,
        "-c",
        container.name,
        ...(previous ? ["--previous"] : []),
      ]);
      if (code === 0) {
        places.push({
          where: `log ${namespace}/${name} ${container.name}${previous ? " (previous)" : ""}`,
          text: asText(stdout),
        });
      }
    }
  }
  return places;
}

/**
 * Every object of a namespace, Events among them, or every cluster-wide one with undefined. Secrets are left out that
 * `holders` names: they hold what is searched for.
 */
export async function objectsOf(namespace: string | undefined, holders: readonly string[]): Promise<Place[]> {
  const kinds = (await kubectl([
    "api-resources",
    "--verbs=list",
    `--namespaced=${namespace !== undefined}`,
    "-o",
    "name",
  ])).trim().split("\n");
  const scope = namespace === undefined ? [] : ["-n", namespace];
  const { items } = await getJson<{ items: { kind: string; metadata: { name: string } }[] }>([
    ...scope,
    kinds.join(","),
    "--show-managed-fields",
  ]);
  return items.filter(({ kind, metadata }) => !(kind === "Secret" && holders.includes(metadata.name))).map((
    object,
  ) => ({
    where: `object ${namespace ?? "(cluster)"} ${object.kind} ${object.metadata.name}`,
    text: asText(JSON.stringify(object)),
  }));
}

/** Command line and environment of every process of a pod. */
export async function processesOf(pod: Pod): Promise<Place[]> {
  const name = `${pod.metadata?.namespace}/${pod.metadata?.name}`;
  const places: Place[] = [];
  for (const { pid, command } of await podProcesses(pod.metadata?.uid ?? "")) {
    for (const file of ["cmdline", "environ"]) {
      const bytes = await readBytes(`/proc/${pid}/${file}`);
      if (bytes) places.push({ where: `${file} ${name} ${command} ${pid}`, text: latin1(bytes) });
    }
  }
  return places;
}

/**
 * Every file of a pod that was or could be written: what is mounted writable (emptyDirs, /dev/shm, the runtime's own
 * files), and the writable layer over each image, also when it is mounted read-only.
 */
export async function filesOf(pod: Pod): Promise<Place[]> {
  const name = `${pod.metadata?.namespace}/${pod.metadata?.name}`;
  const node = (await nodePlace(pod.spec?.nodeName ?? "")).replace("pid:", "");
  const places: Place[] = [];
  for (const { pid, command, first } of await podProcesses(pod.metadata?.uid ?? "")) {
    if (!first) continue;
    const mounts = await mountsOf(pid);
    const points = new Set(mounts.map(({ point }) => point));
    for (const { point, type, writable, upper } of mounts) {
      if (upper !== undefined) {
        const layer = `/proc/${node}/root${upper}`;
        await walk(
          layer,
          new Set(),
          (path, text) =>
            places.push({ where: `file ${name} ${command} layer ${path.slice(layer.length)}`, text }),
        );
      }
      if (!writable || KERNEL.test(type) || type === "overlay") continue;
      const root = `/proc/${pid}/root`;
      const others = new Set([...points].filter((each) => each !== point).map((each) => root + each));
      await walk(
        root + point,
        others,
        (path, text) => places.push({ where: `file ${name} ${command} ${path.slice(root.length)}`, text }),
      );
    }
  }
  return places;
}

interface Mount {
  readonly point: string;
  readonly type: string;
  readonly writable: boolean;
  /** The writable layer of an overlay, as its node sees it. */
  readonly upper: string | undefined;
}

/** The mounts of a process (proc_pid_mountinfo(5)). */
async function mountsOf(pid: number): Promise<Mount[]> {
  const text = await Deno.readTextFile(`/proc/${pid}/mountinfo`);
  return text.trim().split("\n").map((line) => {
    const [before = "", after = ""] = line.split(" - ");
    const [, , , , point = "", options = ""] = before.split(" ");
    const [type = "", , settings = ""] = after.split(" ");
    const has = (list: string, what: string) => list.split(",").includes(what);
    return {
      point: point.replaceAll("\\040", " "),
      type,
      writable: has(options, "rw") && has(settings, "rw"),
      upper: settings.match(/(?:^|,)upperdir=([^,]*)/)?.[1],
    };
  });
}

/** Calls `take` for each regular file at or below `path`, other mounts left out. */
async function walk(
  path: string,
  others: ReadonlySet<string>,
  take: (path: string, text: string) => void,
): Promise<void> {
  let info: Deno.FileInfo;
  try {
    info = await Deno.lstat(path);
  } catch {
    return;
  }
  if (info.isFile) {
    const bytes = await readBytes(path);
    if (bytes) take(path, latin1(bytes));
  } else if (info.isDirectory) {
    for await (const { name } of Deno.readDir(path)) {
      const below = `${path === "/" ? "" : path.replace(/\/$/, "")}/${name}`;
      if (!others.has(below)) await walk(below, others, take);
    }
  }
}

/** The start of a file; undefined when it can't be read, for instance because its process has ended. */
async function readBytes(path: string): Promise<Uint8Array | undefined> {
  try {
    using file = await Deno.open(path);
    const chunks: Uint8Array[] = [];
    const buffer = new Uint8Array(64 * 1024);
    for (let total = 0; total < MAX_FILE_BYTES;) {
      const read = await file.read(buffer);
      if (read === null) break;
      chunks.push(buffer.slice(0, read));
      total += read;
    }
    const bytes = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const chunk of chunks) {
      bytes.set(chunk, at);
      at += chunk.length;
    }
    return bytes;
  } catch {
    return undefined;
  }
}
