/**
 * Kubernetes Events (events.k8s.io/v1), aggregated: the same thing said again is counted, and written at most once a
 * minute. Events are a courtesy to people: nothing waits for them, and no failure of them is anybody's failure.
 */
import { type Clock, systemClock } from "../process/clock.ts";
import { type Log, silentLog } from "../process/log.ts";
import type { KubeClient } from "./client.ts";
import { formatMicroTime } from "./conditions.ts";
import { isNotFound } from "./errors.ts";
import { EVENTS, type KubeEvent } from "./kinds.ts";
import { create, mergePatch } from "./objects.ts";
import type { KubeObject } from "./resource.ts";

/** What is said about an object. */
export interface EventText {
  type: "Normal" | "Warning";
  /** CamelCase, why: "AllocationFailed". */
  reason: string;
  /** What was done or tried: "Reconcile". */
  action?: string;
  /** For people, at most 1 kB is kept. */
  note: string;
}

export interface EventRecorderOptions {
  /** For instance `ipsec.bnerd.net/operator`. */
  controller: string;
  /** The pod's name. */
  instance: string;
  log?: Log;
  clock?: Clock;
  random?: () => number;
  /** At most one write for the same event in this time, 60 s. */
  intervalMs?: number;
  /** Different notes for one object and reason in that time, 5; more are dropped. */
  burst?: number;
}

export interface EventRecorder extends AsyncDisposable {
  /** Says something about `regarding`; returns at once and never throws. */
  event(regarding: KubeObject, text: EventText): void;
  /** Resolves when no write is under way. */
  idle(): Promise<void>;
}

/** The API server refuses a note above this (ValidateEventCreate, 1024 bytes). */
const MAX_NOTE_BYTES = 1024;
/** After this long without a repeat the next one is a new Event, as with client-go. */
const SERIES_MS = 6 * 60_000;
const MAX_SERIES = 2048;

interface Series {
  event: KubeEvent;
  /** How often it was said in all, and how often that was written. */
  count: number;
  written: number;
  lastSeen: number;
  lastSeenDate: Date;
  /** Whether a window is open in which nothing may be written. */
  resting: boolean;
  cancel: () => void;
}

/** A recorder that writes through `client`. Disposing it writes nothing more. */
export function createEventRecorder(
  client: KubeClient,
  {
    controller,
    instance,
    log = silentLog,
    clock = systemClock,
    random = Math.random,
    intervalMs = 60_000,
    burst = 5,
  }: EventRecorderOptions,
): EventRecorder {
  const known = new Map<string, Series>();
  const spoken = new Map<string, number[]>();
  const running = new Set<Promise<void>>();
  const life = new AbortController();

  function newEvent(regarding: KubeObject, { type, reason, action, note }: EventText): KubeEvent {
    const { namespace, name = "", uid, resourceVersion } = regarding.metadata ?? {};
    const suffix = Math.floor(random() * 2 ** 48).toString(16).padStart(12, "0");
    return {
      // Events about cluster-wide objects live in "default".
      metadata: { namespace: namespace ?? "default", name: `${name.slice(0, 200)}.${suffix}` },
      eventTime: formatMicroTime(clock.date()),
      reportingController: controller,
      reportingInstance: instance.slice(0, 128),
      action: action ?? "Reconcile",
      reason,
      type,
      note: clip(note),
      regarding: {
        ...regarding.apiVersion ? { apiVersion: regarding.apiVersion } : {},
        ...regarding.kind ? { kind: regarding.kind } : {},
        ...namespace ? { namespace } : {},
        name,
        ...uid ? { uid } : {},
        ...resourceVersion ? { resourceVersion } : {},
      },
    };
  }

  /** Writes what has not been written, then keeps quiet for the interval. */
  function write(key: string, series: Series): void {
    series.resting = true;
    const first = series.written === 0;
    const count = series.count;
    series.written = count;
    const done = (async () => {
      try {
        if (first) await create(client, EVENTS, { object: series.event, signal: life.signal });
        else await update(series, count);
      } catch (error) {
        if (!life.signal.aborted) {
          log.debug("Cannot write an Event", { reason: series.event.reason, error: error as Error });
        }
      }
    })();
    running.add(done);
    done.finally(() => running.delete(done));
    series.cancel = clock.setTimer(intervalMs, () => rest(key, series));
  }

  async function update(series: Series, count: number): Promise<void> {
    const { namespace, name = "" } = series.event.metadata ?? {};
    const seriesField = { count, lastObservedTime: formatMicroTime(series.lastSeenDate) };
    try {
      await mergePatch(client, EVENTS, {
        namespace,
        name,
        patch: { series: seriesField },
        signal: life.signal,
      });
    } catch (error) {
      // The API server forgets Events after an hour.
      if (!isNotFound(error)) throw error;
      await create(client, EVENTS, { object: { ...series.event, series: seriesField }, signal: life.signal });
    }
  }

  function rest(key: string, series: Series): void {
    series.resting = false;
    if (series.count > series.written) return write(key, series);
    const leftMs = SERIES_MS - (clock.now() - series.lastSeen);
    if (leftMs <= 0) known.delete(key);
    else series.cancel = clock.setTimer(leftMs, () => known.delete(key));
  }

  /** Whether one more note may be said about this object and reason now. */
  function allowed(key: string): boolean {
    const now = clock.now();
    const recent = (spoken.get(key) ?? []).filter((at) => now - at < intervalMs);
    const ok = recent.length < burst;
    if (ok) recent.push(now);
    spoken.delete(key);
    spoken.set(key, recent);
    for (const oldest of spoken.keys()) {
      if (spoken.size <= MAX_SERIES) break;
      spoken.delete(oldest);
    }
    return ok;
  }

  return {
    event(regarding, text) {
      if (life.signal.aborted) return;
      const { namespace = "", name = "", uid = "" } = regarding.metadata ?? {};
      const about = [regarding.kind ?? "", namespace, name, uid, text.type, text.reason].join("\n");
      const key = `${about}\n${text.action ?? ""}\n${text.note}`;
      let series = known.get(key);
      if (!series) {
        if (known.size >= MAX_SERIES || !allowed(about)) {
          log.debug("Event dropped: too many", { reason: text.reason });
          return;
        }
        series = {
          event: newEvent(regarding, text),
          count: 0,
          written: 0,
          lastSeen: 0,
          lastSeenDate: clock.date(),
          resting: false,
          cancel: () => {},
        };
        known.set(key, series);
      }
      series.count++;
      series.lastSeen = clock.now();
      series.lastSeenDate = clock.date();
      if (series.resting) return;
      series.cancel();
      write(key, series);
    },
    async idle() {
      while (running.size) await Promise.all(running);
    },
    async [Symbol.asyncDispose]() {
      life.abort(new Error("The event recorder was closed"));
      for (const { cancel } of known.values()) cancel();
      known.clear();
      await Promise.all(running);
    },
  };
}

/** Cuts at the byte limit, not within a character. */
function clip(note: string): string {
  const bytes = new TextEncoder().encode(note);
  if (bytes.length <= MAX_NOTE_BYTES) return note;
  return new TextDecoder().decode(bytes.subarray(0, MAX_NOTE_BYTES - 4)).replace(/\uFFFD+$/, "") + "…";
}
