// The network of a pod, entered from this machine: for tools that its containers lack, or lack the capabilities for.
import { type Place, run, until } from "./command.ts";

/**
 * The network namespace of a running pod. `containerID` is one of its containers' as the status has it
 * (`containerd://…`). Throws when no process of that container is found within 10 s.
 */
export function podPlace(containerID: string): Promise<Place> {
  const id = containerID.replace(/^.*:\/\//, "");
  if (!/^[0-9a-f]{64}$/.test(id)) {
    throw new TypeError(`Cannot find the pod of a container: its id is "${containerID}"`);
  }
  return until(`container ${id.slice(0, 12)} has a process`, async (): Promise<Place | undefined> => {
    // A container's cgroup is named after it, in the machine's view too.
    const found = await run(["sh", "-c", `grep -ls ${id} /proc/[0-9]*/cgroup | head -1`]);
    const pid = found.match(/^\/proc\/(\d+)\//)?.[1];
    return pid ? `pid:${Number(pid)}` : undefined;
  }, { timeoutMs: 10_000 });
}
