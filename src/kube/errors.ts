/** What can go wrong with a call to the API server. */

/** One entry of `Status.details.causes`: which field, and what is wrong with it. */
export interface StatusCause {
  field?: string;
  message?: string;
  reason?: string;
}

/** `Status.details` of the API (meta/v1). */
export interface StatusDetails {
  name?: string;
  group?: string;
  kind?: string;
  uid?: string;
  causes?: StatusCause[];
  retryAfterSeconds?: number;
}

/**
 * An answer of the API server that is not a success, or the lack of one.
 *
 * `code` is the HTTP status. It is 0 when there was no answer: then `reason` is "Unreachable" (the connection failed
 * or was cut) or "Timeout" (our own deadline), and a write may or may not have been done. Otherwise `reason` is the
 * `Status.reason` ("NotFound", "Conflict", "AlreadyExists", "Invalid", "Forbidden", "Expired", ...).
 */
export class KubeError extends Error {
  override readonly name = "KubeError";
  readonly code: number;
  readonly reason: string;
  readonly details: StatusDetails | undefined;

  constructor(
    message: string,
    options: { code: number; reason: string; details?: StatusDetails | undefined; cause?: unknown },
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.reason = options.reason;
    this.details = options.details;
  }
}

/** Whether `error` is an answer "there is no such thing" of the API server. */
export function isNotFound(error: unknown): boolean {
  return error instanceof KubeError && error.code === 404;
}

/** Whether `error` says that somebody else wrote or owns it: a stale version, or fields of another manager. */
export function isConflict(error: unknown): boolean {
  return error instanceof KubeError && error.code === 409 && error.reason !== "AlreadyExists";
}

/** Whether `error` says that the version or the continue token asked for is too old. */
export function isExpired(error: unknown): boolean {
  return error instanceof KubeError &&
    (error.code === 410 || error.reason === "Expired" || error.reason === "Gone");
}

/** The reasons that Kubernetes gives when a proxy in between answers without a Status. */
const REASONS: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  409: "Conflict",
  410: "Gone",
  413: "RequestEntityTooLarge",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

/** The error for answer `code` with `body`, which is a `Status` if the API server itself wrote it. */
export function errorFromAnswer(what: string, answer: { code: number; body: string }): KubeError {
  const { code, body } = answer;
  let status: { kind?: unknown; reason?: unknown; message?: unknown; details?: StatusDetails } = {};
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) status = parsed;
  } catch {
    // Not from the API server: the text itself is the message.
  }
  const isStatus = status.kind === "Status";
  const reason = isStatus && typeof status.reason === "string" && status.reason
    ? status.reason
    : REASONS[code] ?? "Unknown";
  const said = isStatus && typeof status.message === "string" ? status.message : body.trim().slice(0, 200);
  return new KubeError(`Cannot ${what}: ${code} ${reason}${said ? `: ${said}` : ""}`, {
    code,
    reason,
    details: isStatus ? status.details : undefined,
  });
}
