/**
 * Leader election by a Lease (coordination.k8s.io/v1), compatible with client-go's: 15 s of lease, given up when it
 * could not be renewed for 10 s, tried every 2 s.
 *
 * Whether another's lease has run out is judged by how long *we* have seen no change in it, by the monotonic clock:
 * the clocks of two machines need not agree, and a step of ours ends nobody's lease.
 */
import { type Clock, jitter, sleep, systemClock } from "../process/clock.ts";
import { type Log, silentLog } from "../process/log.ts";
import type { KubeClient } from "./client.ts";
import { formatMicroTime } from "./conditions.ts";
import { linkAbort } from "./deadline.ts";
import { isConflict, KubeError } from "./errors.ts";
import { type Lease, LEASES } from "./kinds.ts";
import { create, get, replace } from "./objects.ts";

export interface ElectionOptions {
  namespace: string;
  name: string;
  /** Who we are; unique for each process, for instance the pod's name and a random part. */
  identity: string;
  /** Shutdown: the lease is released once `lead` has ended. */
  signal: AbortSignal;
  /** The leader's work. Its signal aborts when the lease is lost, and on shutdown; then it has to end soon. */
  lead: (signal: AbortSignal) => Promise<void>;
  /** Told when leadership begins and ends. */
  onChange?: ((leader: boolean) => void) | undefined;
  /**
   * Told at once when the lease is lost, after the signal of `lead` has aborted. Another may begin 5 s later, so one
   * whose work takes longer to end has to exit here.
   */
  onLost?: (() => void) | undefined;
  log?: Log;
  clock?: Clock;
  random?: () => number;
  leaseMs?: number;
  renewDeadlineMs?: number;
  retryMs?: number;
}

/**
 * Waits for the lease, leads, and resolves with why that ended: "released" after a shutdown or when `lead` returned,
 * "lost" when the lease could not be renewed. After "lost" the process should end: somebody else leads.
 *
 * @throws what `lead` throws, after the lease was released.
 */
export async function runElection(
  client: KubeClient,
  options: ElectionOptions,
): Promise<"released" | "lost"> {
  const {
    namespace,
    name,
    identity,
    signal,
    lead,
    onChange,
    onLost,
    log = silentLog,
    clock = systemClock,
    random = Math.random,
    leaseMs = 15_000,
    renewDeadlineMs = 10_000,
    retryMs = 2_000,
  } = options;
  const tell = log.with({ kind: "Lease", namespace, name });
  /** The lease as last seen, and when (monotonic) we first saw it so. */
  let seen: { lease: Lease; at: number } | undefined;

  function observe(lease: Lease): void {
    const { holderIdentity, renewTime, leaseTransitions } = lease.spec ?? {};
    const old = seen?.lease.spec;
    const same = old && old.holderIdentity === holderIdentity && old.renewTime === renewTime &&
      old.leaseTransitions === leaseTransitions;
    seen = { lease, at: same && seen ? seen.at : clock.now() };
  }

  /** One try to take or renew the lease: whether it is ours now. */
  async function tryHold(within: AbortSignal): Promise<boolean> {
    const call = { signal: within, timeoutMs: Math.min(5_000, renewDeadlineMs) };
    const started = clock.now();
    const live = await get(client, LEASES, { namespace, name, ...call });
    if (live) observe(live);
    const spec = live?.spec;
    const holder = spec?.holderIdentity ?? "";
    const lastsMs = (spec?.leaseDurationSeconds ?? 0) * 1000;
    if (holder && holder !== identity && seen && clock.now() - seen.at < lastsMs) return false;

    const now = formatMicroTime(clock.date());
    const mine = holder === identity;
    const object: Lease = {
      metadata: live?.metadata ?? { namespace, name },
      spec: {
        ...spec,
        holderIdentity: identity,
        leaseDurationSeconds: Math.ceil(leaseMs / 1000),
        acquireTime: mine && spec?.acquireTime ? spec.acquireTime : now,
        renewTime: now,
        leaseTransitions: (spec?.leaseTransitions ?? 0) + (live && !mine ? 1 : 0),
      },
    };
    // The version in the metadata makes it a compare-and-swap: of two that try, one gets a conflict.
    const stored = live
      ? await replace(client, LEASES, { object, ...call })
      : await create(client, LEASES, { object, ...call });
    // The lease counts from when it was asked for, not from when the answer came.
    seen = { lease: stored, at: started };
    return true;
  }

  /** Gives the lease back, if it is ours. A renewal that was cut off may still have been written: then once more. */
  async function release(): Promise<void> {
    let lease = seen?.lease;
    try {
      for (let attempt = 0; lease?.spec?.holderIdentity === identity; attempt++) {
        const now = formatMicroTime(clock.date());
        const spec = { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1, renewTime: now };
        try {
          await replace(client, LEASES, { object: { ...lease, spec }, timeoutMs: 2_000 });
          tell.info("Lease released");
          return;
        } catch (error) {
          if (!isConflict(error) || attempt > 2) throw error;
          lease = await get(client, LEASES, { namespace, name, timeoutMs: 2_000 });
        }
      }
    } catch (error) {
      tell.warn("Cannot release the lease; it runs out by itself", { error: error as Error });
    }
  }

  /** Tries once and says in the log why not. */
  async function attempt(within: AbortSignal): Promise<boolean> {
    try {
      return await tryHold(within);
    } catch (error) {
      const beaten = isConflict(error) || (error instanceof KubeError && error.reason === "AlreadyExists");
      if (!within.aborted) {
        tell[beaten ? "debug" : "warn"]("Cannot take or renew the lease", { error: error as Error });
      }
      return false;
    }
  }

  while (!signal.aborted && !await attempt(signal)) {
    await sleep(retryMs * (1 + 0.2 * random()), { signal, clock });
  }
  if (signal.aborted) {
    await release();
    return "released";
  }

  tell.info("Leading", { identity });
  onChange?.(true);
  using link = linkAbort(signal);
  let lost = false;
  const ended = new AbortController();
  const renewing = (async () => {
    using until = linkAbort(ended.signal);
    while (!ended.signal.aborted) {
      await sleep(jitter(retryMs, { spread: 0.1, random }), { signal: ended.signal, clock });
      if (ended.signal.aborted) return;
      const leftMs = renewDeadlineMs - (clock.now() - (seen?.at ?? 0));
      // The call must not outlive the deadline: a leader that hangs in it would go on after its lease.
      using trying = linkAbort(until.signal);
      const cancel = clock.setTimer(Math.max(0, leftMs), () => trying.abort(new Error("The lease ran out")));
      const held = leftMs > 0 && await attempt(trying.signal);
      cancel();
      const stolen = seen?.lease.spec?.holderIdentity !== identity;
      if (held || ended.signal.aborted || (!stolen && leftMs > 0 && !trying.signal.aborted)) continue;
      lost = true;
      tell.error("Lease lost", { identity, holder: seen?.lease.spec?.holderIdentity });
      onChange?.(false);
      link.abort(new Error(`The lease ${namespace}/${name} was lost`));
      onLost?.();
      return;
    }
  })();
  try {
    await lead(link.signal);
  } finally {
    ended.abort(new Error("Leading has ended"));
    await renewing;
    if (!lost) {
      await release();
      onChange?.(false);
    }
  }
  return lost ? "lost" : "released";
}
