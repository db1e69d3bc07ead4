// Writes the status to the API server: on a change at once, else as a heartbeat. Nothing waits for it, and no failure of
// it stops the watchdog.
import {
  AGENT_MANAGER,
  API_VERSION,
  GATEWAY_KIND,
  GATEWAY_PLURAL,
  GROUP,
} from "../../src/api/ipsec_gateway.ts";
import type { KubeClient } from "../../src/kube/client.ts";
import { createEventRecorder } from "../../src/kube/events.ts";
import { apply } from "../../src/kube/objects.ts";
import { type KubeObject, namespaced } from "../../src/kube/resource.ts";
import { type Clock, sleep, systemClock } from "../../src/process/clock.ts";
import { errorText, type Log } from "../../src/process/log.ts";
import { type Snapshot, statusPatch, substance, transitions } from "./status.ts";

/** The status is written at least this often, so that its age says whether the agent lives. */
export const HEARTBEAT_MS = 60_000;
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 30_000;

const GATEWAYS = namespaced<KubeObject>(API_VERSION, GATEWAY_PLURAL, GATEWAY_KIND);

/** How to report. */
export interface ReporterOptions {
  readonly client: KubeClient;
  readonly gateway: { readonly name: string; readonly namespace: string };
  readonly podName: string;
  readonly log: Log;
  readonly clock?: Clock;
  readonly signal: AbortSignal;
}

/** A running reporter. */
export interface Reporter {
  /** Takes what is so now; writes it when it differs in more than byte counts. Returns at once. */
  report(snapshot: Snapshot): void;
  /** Resolves when the signal has aborted. */
  readonly done: Promise<void>;
}

/** Starts writing; the first write comes with the first snapshot. */
export function startReporter(options: ReporterOptions): Reporter {
  const { client, gateway, podName, log, clock = systemClock, signal } = options;
  const events = createEventRecorder(client, {
    controller: `${GROUP}/status-agent`,
    instance: podName,
    log,
    clock,
  });
  const known = new Map<string, boolean>();
  let latest: Snapshot | undefined;
  let uid: string | undefined;
  let written: string | undefined;
  let writtenAt = -Infinity;
  let wake = () => {};

  function due(): boolean {
    if (!latest) return false;
    return substance(latest) !== written || clock.now() - writtenAt >= HEARTBEAT_MS;
  }

  async function write(snapshot: Snapshot): Promise<void> {
    const object = await apply(client, GATEWAYS, {
      object: statusPatch(snapshot, { ...gateway, now: clock.date().getTime() }),
      fieldManager: AGENT_MANAGER,
      force: true,
      subresource: "status",
      timeoutMs: 10_000,
      signal,
    });
    written = substance(snapshot);
    writtenAt = clock.now();
    uid ??= object?.metadata?.uid;
    // Events wait for the uid: without it nobody finds them at the object.
    for (const transition of transitions(known, snapshot.daemon.tunnels)) {
      const metadata = { ...gateway, ...(uid === undefined ? {} : { uid }) };
      events.event({ apiVersion: API_VERSION, kind: GATEWAY_KIND, metadata }, {
        ...transition,
        action: "WatchTunnel",
      });
    }
  }

  async function run(): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      if (due() && latest) {
        try {
          await write(latest);
          if (failures) log.info("Status written again", { failures });
          failures = 0;
        } catch (error) {
          if (signal.aborted) break;
          const record = failures === 0 ? log.warn : log.debug;
          record("Cannot write the status; it is tried again", { error: errorText(error) });
          failures++;
          await sleep(Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1)), { signal, clock });
          continue;
        }
      }
      const waiting = new AbortController();
      wake = () => waiting.abort();
      const both = AbortSignal.any([signal, waiting.signal]);
      const restMs = latest ? Math.max(0, writtenAt + HEARTBEAT_MS - clock.now()) : HEARTBEAT_MS;
      if (!due()) await sleep(restMs, { signal: both, clock });
      wake = () => {};
    }
    await events[Symbol.asyncDispose]();
  }

  return {
    report(snapshot) {
      latest = snapshot;
      if (due()) wake();
    },
    done: run(),
  };
}
