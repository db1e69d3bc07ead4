/** Bounds in time for calls. `AbortSignal.any` and `.timeout` are avoided: they can't be taken back when done. */

/** A signal that can be aborted here, aborts with its parent, and lets go of the parent when disposed. */
export interface LinkedAbort extends Disposable {
  readonly signal: AbortSignal;
  abort(reason: unknown): void;
}

/** Links a new abort to `parent`. */
export function linkAbort(parent: AbortSignal | undefined): LinkedAbort {
  const controller = new AbortController();
  const onAbort = () => controller.abort(parent?.reason);
  if (parent?.aborted) onAbort();
  else parent?.addEventListener("abort", onAbort, { once: true });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    [Symbol.dispose]: () => parent?.removeEventListener("abort", onAbort),
  };
}

/** The reason that a {@linkcode withDeadline} aborts with. */
export class DeadlineError extends Error {
  override readonly name = "DeadlineError";
}

/**
 * Runs `work`; when it takes longer than `ms`, aborts `link`. What outlives the work (the body of a stream) stays
 * bound to the link, no longer to the deadline.
 *
 * @throws DeadlineError when the time ran out; the reason of the link when that aborted; else what `work` throws.
 */
export async function withDeadline<T>(
  { ms, link }: { ms: number; link: LinkedAbort },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timer = setTimeout(() => link.abort(new DeadlineError(`No answer within ${ms} ms`)), ms);
  try {
    return await work(link.signal);
  } catch (error) {
    // Whatever an aborted fetch throws, the reason is what its caller wants to know.
    throw link.signal.aborted ? link.signal.reason : error;
  } finally {
    clearTimeout(timer);
  }
}
