// The one way to an OpenStack cloud. Everything else of this folder is built on `OpenStack.request`.

/** The services that are called, by their type in the Keystone catalog. */
export type Service = "network" | "compute" | "identity";

export type Method = "GET" | "POST" | "PUT" | "DELETE";

/** Query parameters; a list repeats its key, undefined leaves it out. */
export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

export interface OpenStackRequest {
  service: Service;
  method: Method;
  /** Below the service's endpoint, with its version: `/v2.0/ports` (network), `/servers/ID` (compute). */
  path: string;
  query?: Query;
  /** Sent as JSON. */
  body?: unknown;
  headers?: Readonly<Record<string, string>>;
  /** The deadline of the whole call, its body included; default 30 s to read and 60 s to write. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

export interface OpenStackResponse {
  status: number;
  headers: Headers;
  /** The decoded JSON, or undefined when the answer has no body. Not validated: that is done where it is used. */
  body: unknown;
}

/**
 * A cloud, seen by one set of credentials. `request` answers with a 2xx or throws an `OpenStackError`;
 * an abort of `signal` throws the signal's reason.
 */
export interface OpenStack {
  request(request: OpenStackRequest): Promise<OpenStackResponse>;
}

/** What one HTTP call was, for metrics. `code` is the status, or "timeout" or "error" when there was none. */
export interface SeenRequest {
  service: Service;
  method: Method;
  code: string;
  seconds: number;
}
