/** Waiting in tests: for a condition, with a deadline, never for a guess. */

/**
 * Resolves with the first value of `probe` that is neither false, null nor undefined. A probe that throws counts as
 * not yet.
 *
 * @throws Error naming `what` when `timeoutMs` (5 s) went by; its cause is the probe's last error.
 */
export async function eventually<T>(
  what: string,
  probe: () => T | Promise<T>,
  { timeoutMs = 5_000, everyMs = 5 }: { timeoutMs?: number; everyMs?: number } = {},
): Promise<NonNullable<Exclude<T, false>>> {
  const until = performance.now() + timeoutMs;
  let cause: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value !== false && value !== null && value !== undefined) {
        return value as NonNullable<Exclude<T, false>>;
      }
    } catch (error) {
      cause = error;
    }
    if (performance.now() > until) throw new Error(`Did not see in ${timeoutMs} ms: ${what}`, { cause });
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
