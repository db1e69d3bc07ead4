// Leaving a service in peace for a while after it has failed.
import { OpenStackError } from "./errors.ts";

/**
 * So long nothing is asked of a service that refused our credentials (some clouds lock a user that fails often), or
 * that let a call run into its deadline: each such call holds a worker, and one silent cloud must not hold them all.
 */
export const HOLD_MS = 10_000;

/** Pauses that grow with each failure in a row. */
const HOLD_MAX_MS = 120_000;

/** The pauses after one failure, two in a row, and so on: 10, 20, 40, 80, 120 s. */
export class Holds {
  #failures = 0;

  next(): number {
    return Math.min(HOLD_MS * 2 ** this.#failures++, HOLD_MAX_MS);
  }

  reset(): void {
    this.#failures = 0;
  }
}

/** The failure as it is told to those that come during the pause: nothing was sent for them. */
export function heldBack(failure: OpenStackError, restMs: number): OpenStackError {
  const { service, method, path, status, type } = failure;
  return new OpenStackError(`${failure.message}; it is asked again in ${Math.ceil(restMs / 1000)} s`, {
    service,
    method,
    path,
    status,
    type,
    ambiguous: false,
    retryAfterMs: restMs,
  }, { cause: failure });
}
