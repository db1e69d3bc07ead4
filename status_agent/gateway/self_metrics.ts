// The agent's own numbers in Prometheus' text format, under the names of Prometheus' client libraries.

/** USER_HZ, what /proc counts times in; 100 on every Linux that Deno runs on. */
const TICKS = 100;
const PAGE_BYTES = 4096;

interface Metric {
  readonly name: string;
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly value: number;
}

/** CPU time, memory and file descriptors from /proc (proc(5)); nothing where it can't be read. */
function processMetrics(proc: string): Metric[] {
  try {
    const stat = Deno.readTextFileSync(`${proc}/self/stat`);
    // The name in parentheses may hold anything; the fields are counted after it, from 3 on.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ").map(Number);
    const field = (number: number) => fields[number - 3] ?? 0;
    const metric = (name: string, type: Metric["type"], help: string, value: number) =>
      ({ name, type, help, value }) as const;
    return [
      metric(
        "process_cpu_seconds_total",
        "counter",
        "User and system CPU time",
        (field(14) + field(15)) / TICKS,
      ),
      metric(
        "process_open_fds",
        "gauge",
        "Open file descriptors",
        [...Deno.readDirSync(`${proc}/self/fd`)].length,
      ),
      metric("process_resident_memory_bytes", "gauge", "Resident memory", field(24) * PAGE_BYTES),
    ];
  } catch {
    return [];
  }
}

/** The exposition of the agent itself; `problems`: how many things are wrong with its pod. */
export function selfMetrics(problems: number, proc = "/proc"): string {
  const metrics: Metric[] = [
    {
      name: "ipsec_gateway_problems",
      type: "gauge",
      help: "How many things the agent found wrong with its pod",
      value: problems,
    },
    ...processMetrics(proc),
  ];
  return metrics.map(({ name, type, help, value }) =>
    `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${name} ${value}\n`
  ).join("");
}
