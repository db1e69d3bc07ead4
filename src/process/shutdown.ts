/** The end of a process: SIGTERM and SIGINT as an AbortSignal, with a hard limit. */
import { type Clock, systemClock } from "./clock.ts";
import { type Log, silentLog } from "./log.ts";

export interface ShutdownOptions {
  /** How long the work may take to end, 10 s; then the process exits with 1. */
  limitMs?: number;
  log?: Log;
  clock?: Clock;
  exit?: (code: number) => void;
  signals?: readonly Deno.Signal[];
}

export interface Shutdown extends Disposable {
  /** Aborts at the first signal. */
  readonly signal: AbortSignal;
  /** Begins the shutdown from inside, for instance when the lease was lost. */
  begin(reason: string): void;
}

/**
 * Listens for SIGTERM and SIGINT: the first aborts `signal` and starts the limit, a second one exits at once with 1.
 * Dispose it when all work has ended, so that the process can.
 */
export function watchShutdown(
  {
    limitMs = 10_000,
    log = silentLog,
    clock = systemClock,
    exit = Deno.exit,
    signals = ["SIGTERM", "SIGINT"],
  }: ShutdownOptions = {},
): Shutdown {
  const controller = new AbortController();
  let cancel = () => {};
  const begin = (reason: string) => {
    if (controller.signal.aborted) return;
    log.info("Shutting down", { reason });
    cancel = clock.setTimer(limitMs, () => {
      log.error("Work did not end in time; exiting", { limitMs });
      exit(1);
    });
    controller.abort(new Error(`Shutting down: ${reason}`));
  };
  const handlers = signals.map((name) => {
    const handler = () => controller.signal.aborted ? exit(1) : begin(name);
    Deno.addSignalListener(name, handler);
    return { name, handler };
  });
  return {
    signal: controller.signal,
    begin,
    [Symbol.dispose]() {
      cancel();
      for (const { name, handler } of handlers) Deno.removeSignalListener(name, handler);
    },
  };
}
