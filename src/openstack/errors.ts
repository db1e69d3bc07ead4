import type { Method, Service } from "./contract.ts";

/** The parts of an `OpenStackError`. */
export interface OpenStackErrorFields {
  service: Service;
  method: Method;
  path: string;
  /** The HTTP status, or 0 when there was no answer. */
  status: number;
  /**
   * `NeutronError.type`, the key of Nova's fault (`conflictingRequest`, `itemNotFound`, ...), Keystone's title,
   * or one of ours: `Timeout`, `ConnectionFailed`, `UnreadableAnswer`, `UnexpectedAnswer`, `NoEndpoint`;
   * empty when the answer named none.
   */
  type: string;
  /** True when the call was a write that may have taken effect although it failed: read back before anything else. */
  ambiguous: boolean;
  /** What the service asked for by `Retry-After`. */
  retryAfterMs?: number;
}

/** A call to OpenStack that did not succeed. Decide by `type`; one status has many meanings in Neutron. */
export class OpenStackError extends Error {
  override readonly name = "OpenStackError";
  readonly service: Service;
  readonly method: Method;
  readonly path: string;
  readonly status: number;
  readonly type: string;
  readonly ambiguous: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, fields: OpenStackErrorFields, options: ErrorOptions = {}) {
    super(message, options);
    this.service = fields.service;
    this.method = fields.method;
    this.path = fields.path;
    this.status = fields.status;
    this.type = fields.type;
    this.ambiguous = fields.ambiguous;
    this.retryAfterMs = fields.retryAfterMs;
  }
}

/** True for an answer that says that the object does not exist. */
export function isNotFound(error: unknown): error is OpenStackError {
  return error instanceof OpenStackError && error.status === 404;
}

/** True when a write may have taken effect although it failed (5xx, timeout, cut, unreadable answer). */
export function isAmbiguous(error: unknown): error is OpenStackError {
  return error instanceof OpenStackError && error.ambiguous;
}

/** True when `If-Match` did not match: somebody else changed the object in between. */
export function isStale(error: unknown): error is OpenStackError {
  return error instanceof OpenStackError && error.status === 412;
}

/**
 * True when the project has used up a quota: Neutron's 409 `OverQuota`, Nova's 413, and its 403 that speaks of a
 * maximum ("Maximum number of ports exceeded").
 */
export function isQuota(error: unknown): boolean {
  if (!(error instanceof OpenStackError)) return false;
  if (error.type === "OverQuota" || error.status === 413) return true;
  return error.service === "compute" && error.status === 403 && /quota|exceeded|maximum/i.test(error.message);
}

/** What a person can do about `error`, or an empty string where its own text says enough. */
function hint(error: OpenStackError): string {
  if (isQuota(error)) return "raise the project's quota or delete what is unused";
  if (error.type === "NoEndpoint") return "";
  if (error.status === 0 && /certificate/i.test(error.message)) {
    return "give the CA in the cloud Secret's key cacert";
  }
  if (error.status === 0 || error.status >= 500) {
    return "it is tried again; see that the service answers when it lasts";
  }
  if (error.service === "identity" && (error.status === 401 || error.status === 404)) {
    return "check the credentials in the cloud Secret";
  }
  if (error.status === 401) return "check that the credentials are still valid for the project";
  if (error.status === 403) return "give the credentials a role that may do this";
  return "";
}

/**
 * `error` with what we were about to do in front of it, and what to do about it behind; the fields stay as they are.
 * @param what completes "Cannot ...", and names the object: "attach port ID (gateway) to server ID"
 */
export function failedTo(what: string, error: unknown, todo = ""): Error {
  // An abort, or an error that says by itself what it is about.
  if (!(error instanceof OpenStackError)) return error instanceof Error ? error : new Error(String(error));
  const advice = [todo, hint(error)].find((text) => text !== "");
  const message = `Cannot ${what}: ${error.message}${
    advice && !error.message.includes(advice) ? `; ${advice}` : ""
  }`;
  return new OpenStackError(message, {
    service: error.service,
    method: error.method,
    path: error.path,
    status: error.status,
    type: error.type,
    ambiguous: error.ambiguous,
    ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
  }, { cause: error });
}

/**
 * Runs `work`; an error of a call that nobody has named yet gets `what` in front, as by `failedTo`.
 * @param what completes "Cannot ...": "make the port of NAME ready"
 */
export async function naming<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof OpenStackError && !error.message.startsWith("Cannot ")) throw failedTo(what, error);
    throw error;
  }
}
