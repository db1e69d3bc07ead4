/**
 * What the kernel says of this process, under the names of Prometheus' client libraries. Ours instead of prom-client's
 * default metrics: those threw on several releases of Deno, and on others give numbers of an event loop and heap
 * spaces that aren't measured.
 */

import process from "node:process";

/** Values by metric name; what can't be read is left out. */
export type ProcessStats = Readonly<Record<string, number>>;

/** Help texts, by the same names. */
export const PROCESS_METRICS: Readonly<Record<string, string>> = {
  process_cpu_seconds_total: "User and system CPU time",
  process_max_fds: "Limit of open file descriptors",
  process_open_fds: "Open file descriptors",
  process_resident_memory_bytes: "Resident memory",
  process_start_time_seconds: "Start of the process, Unix time",
  process_virtual_memory_bytes: "Virtual memory",
};

/** USER_HZ, what /proc counts times in; 100 on every Linux that Deno runs on. */
const TICKS = 100;
const PAGE = 4096;

/**
 * Reads /proc (proc(5)). Deno lets only a process with all permissions read it; one with fewer gets what the runtime
 * itself tells: CPU time, resident memory and start. `root` is for tests.
 */
export async function processStats(root = "/proc"): Promise<ProcessStats> {
  const found = await readProc(root).catch(() => undefined) ?? {
    process_cpu_seconds_total: (({ user, system }) => (user + system) / 1e6)(process.cpuUsage()),
    process_resident_memory_bytes: Deno.memoryUsage().rss,
    process_start_time_seconds: performance.timeOrigin / 1000,
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => Number.isFinite(value)));
}

async function readProc(root: string): Promise<Record<string, number>> {
  const [stat, system, limits, open] = await Promise.all([
    Deno.readTextFile(`${root}/self/stat`),
    Deno.readTextFile(`${root}/stat`),
    Deno.readTextFile(`${root}/self/limits`),
    Array.fromAsync(Deno.readDir(`${root}/self/fd`)),
  ]);
  // The name in parentheses may hold anything; the fields are counted after it, from 3 on.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ").map(Number);
  const field = (number: number) => fields[number - 3] ?? NaN;
  return {
    process_cpu_seconds_total: (field(14) + field(15)) / TICKS,
    process_max_fds: Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1]),
    process_open_fds: open.length,
    process_resident_memory_bytes: field(24) * PAGE,
    process_start_time_seconds: Number(/^btime (\d+)$/m.exec(system)?.[1]) + field(22) / TICKS,
    process_virtual_memory_bytes: field(23),
  };
}
