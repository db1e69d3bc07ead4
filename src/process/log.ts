/**
 * JSON logs, one object a line on standard output. Both executables use this one; it is ours and not a library's
 * because the status-agent's memory is budgeted (see docs/dependencies.md).
 *
 * Safe for keys by construction: a record holds what the caller names and nothing else. Of an `Error` only name,
 * message and the messages of its causes are written; other objects' own fields are not walked.
 */

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = typeof LOG_LEVELS[number];

/** What a field may hold. Objects are left out on purpose: a whole Secret can't slip in. */
export type LogValue = string | number | boolean | null | undefined | readonly string[] | Error;
export type LogFields = Readonly<Record<string, LogValue>>;

/** A logger; `with` gives one whose records also carry `fields` (for instance kind, namespace and name). */
export interface Log {
  debug(msg: string, fields?: LogFields): void;
  info(msg: string, fields?: LogFields): void;
  warn(msg: string, fields?: LogFields): void;
  error(msg: string, fields?: LogFields): void;
  with(fields: LogFields): Log;
}

export interface LogOptions {
  level?: LogLevel;
  /** Takes one line without its end; standard output by default. */
  write?: (line: string) => void;
  now?: () => Date;
}

const encoder = new TextEncoder();

function toStdout(line: string): void {
  const bytes = encoder.encode(line + "\n");
  try {
    for (let sent = 0; sent < bytes.length;) sent += Deno.stdout.writeSync(bytes.subarray(sent));
  } catch {
    // Nobody reads the log any more; that is no reason to stop the work.
  }
}

/** The messages of an error and its causes, outermost first, joined by ": ". */
export function errorText(error: unknown): string {
  const parts: string[] = [];
  for (let at: unknown = error, depth = 0; at !== undefined && depth < 5; depth++) {
    const text = at instanceof Error ? at.message || at.name : String(at);
    if (!parts.some((part) => part.includes(text))) parts.push(text);
    at = at instanceof Error ? at.cause : undefined;
  }
  return parts.join(": ");
}

/** A logger that writes records at `level` (info by default) and above. */
export function createLog(
  { level = "info", write = toStdout, now = () => new Date() }: LogOptions = {},
): Log {
  const from = LOG_LEVELS.indexOf(level);
  const logger = (base: LogFields): Log => {
    const at = (level: LogLevel) => (msg: string, fields?: LogFields) => {
      if (LOG_LEVELS.indexOf(level) < from) return;
      const record: Record<string, unknown> = { time: now().toISOString(), level, msg };
      for (const [key, value] of Object.entries({ ...base, ...fields })) {
        if (value !== undefined && !(key in record)) {
          record[key] = value instanceof Error ? errorText(value) : value;
        }
      }
      write(JSON.stringify(record));
    };
    return {
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
      with: (fields) => logger({ ...base, ...fields }),
    };
  };
  return logger({});
}

/** A logger that drops everything. */
export const silentLog: Log = createLog({ write: () => {} });
