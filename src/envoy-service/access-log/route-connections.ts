/**
 * Keeps the slots of the WebSocket connections that Envoys hold on one route. A periodic log entry renews the lease of a
 * connection, an end entry releases its slot. Nothing else renews leases, so the slots of an Envoy that died are free after
 * one lease.
 *
 * Envoy cannot be told to close a connection. A connection that lost its lease is therefore counted again even if the limit
 * has been reached since, up to a bound: new connections are refused until the count is below the limit.
 */

import { renewalMs } from "../../core/slot-lease.js";
import { UNAVAILABLE } from "../../engine/slots/contact.js";
import {
  newReleaseQueue,
  queueRelease,
  releasesAnswered,
  releasesLeft,
  takeReleases,
} from "../../engine/slots/releases.js";
import type { Clock } from "../../shared/clock.js";
import { mapConcurrently } from "../../shared/concurrently.js";
import type { SlotKeeperObserver } from "../../slots/slot-keeper-options.js";
import { outcomeOf, type SlotLimits, type Slots } from "../../slots/slots.js";

export interface EnvoySocket {
  /** A worker of an Envoy since its last start. */
  proxy: string;
  connection: string;
  /** Empty if it ended before the service had assigned a pod. */
  pod: string;
  app: string;
  route: string;
}

export interface RouteConnectionsOptions {
  route: string;
  slots(): Pick<Slots, "acquire" | "renew" | "release">;
  leaseMs(): number;
  timeoutMs(): number;
  /** Limits of connections that are counted again; undefined if the route is not configured any more. */
  reclaimLimits?(): SlotLimits | undefined;
  observer: SlotKeeperObserver;
  clock: Clock;
}

export type RouteConnections = ReturnType<typeof createRouteConnections>;

interface Due extends EnvoySocket {
  seenAt: number;
}

const BATCH_SIZE = 250;
const PARALLEL_CALLS = 8;
const PARALLEL_RECLAIMS = 64;
/** Entries that arrive within this time share a call. */
const GATHER_MS = 5;
const RETRY_MS = 200;
/** Without `reclaimLimits`. */
const NO_LIMITS = { maxPerPod: 1_000_000_000, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 0 };

export const keyOf = ({ proxy, connection }: EnvoySocket) => `${proxy}/${connection}`;

export function createRouteConnections(options: RouteConnectionsOptions) {
  const { route, slots, leaseMs, timeoutMs, observer, clock } = options;
  /** Reported, and not renewed yet. */
  const due = new Map<string, Due>();
  const releases = newReleaseQueue();
  const renewals = createSender("renew", renewDue, () => due.size > 0);
  const endings = createSender("release", releaseEnded, () => releasesLeft(releases) > 0);
  let away = false;
  let closed = false;

  /** Calls `work` one at a time, soon after `start`, until nothing is left. What the store does not answer is sent again. */
  function createSender(operation: "renew" | "release", work: () => Promise<void>, isLeft: () => boolean) {
    let stopTimer: (() => void) | undefined;
    let sending: Promise<void> | undefined;
    function start(ms = GATHER_MS): void {
      if (closed) return;
      stopTimer ??= clock.after(ms, () => {
        stopTimer = undefined;
        sending ??= send().finally(() => {
          sending = undefined;
        });
      });
    }
    async function send(): Promise<void> {
      try {
        await work();
        if (isLeft()) start();
      } catch (error) {
        failed(operation, error);
        start(RETRY_MS);
      }
    }
    async function stop(): Promise<void> {
      stopTimer?.();
      await sending;
    }
    return { start, send, stop };
  }

  function failed(operation: "renew" | "release", error: unknown): void {
    observer.failed?.(operation, error);
    if (away || outcomeOf(error) !== UNAVAILABLE) return;
    away = true;
    observer.contactChanged?.(route, true, error);
  }

  function storeReplied(): void {
    if (away) observer.contactChanged?.(route, false);
    away = false;
  }

  async function renewDue(): Promise<void> {
    const lost: Due[] = [];
    await mapConcurrently(takeBatches(), PARALLEL_CALLS, async (batch) => {
      lost.push(...(await renew(batch)));
      storeReplied();
    });
    if (lost.length === 0) return;
    observer.lost?.(lost.length);
    await mapConcurrently(lost, PARALLEL_RECLAIMS, reclaim);
  }

  async function releaseEnded(): Promise<void> {
    for (let ended = takeReleases(releases); ended !== undefined; ended = takeReleases(releases)) {
      try {
        await slots().release(ended[0]!.proxy, leaseMs(), ended, { deadlineMs: timeoutMs() });
      } catch (error) {
        releasesAnswered(releases, false);
        throw error;
      }
      releasesAnswered(releases, true);
      storeReplied();
    }
  }

  /** One proxy per batch, as the store needs it. Drops old entries: the next entry renews the connection, if it is open. */
  function takeBatches(): Due[][] {
    const oldest = clock.now() - renewalMs(leaseMs());
    const open = new Map<string, Due[]>();
    const batches: Due[][] = [];
    for (const [key, socket] of due) {
      if (socket.seenAt < oldest) {
        due.delete(key);
        continue;
      }
      let batch = open.get(socket.proxy);
      if (batch === undefined || batch.length === BATCH_SIZE) {
        batch = [];
        open.set(socket.proxy, batch);
        batches.push(batch);
      }
      batch.push(socket);
    }
    return batches;
  }

  async function renew(batch: Due[]): Promise<Due[]> {
    const deadlineMs = Math.min(timeoutMs(), renewalMs(leaseMs()));
    const { lost } = await slots().renew(batch[0]!.proxy, leaseMs(), batch, { deadlineMs });
    const gone = new Set(lost);
    const without: Due[] = [];
    for (const socket of batch) {
      // It has ended or was reported again in the meantime.
      if (due.get(keyOf(socket)) !== socket) continue;
      if (gone.has(socket.connection)) without.push(socket);
      else due.delete(keyOf(socket));
    }
    return without;
  }

  async function reclaim(socket: Due): Promise<void> {
    const key = keyOf(socket);
    if (due.get(key) !== socket) return;
    const { proxy, connection, app, pod } = socket;
    const limited = options.reclaimLimits === undefined ? NO_LIMITS : options.reclaimLimits();
    if (limited === undefined) {
      due.delete(key);
      return;
    }
    const limits = { ...limited, leaseMs: leaseMs() };
    const deadline = { deadlineMs: timeoutMs() };
    const answer = await slots().acquire({ proxy, connection, app, pods: [pod], reclaim: true }, limits, deadline);
    if (due.get(key) === socket) due.delete(key);
    if (answer.allowed) observer.reclaimed?.(pod);
  }

  return {
    alive(socket: EnvoySocket): void {
      due.set(keyOf(socket), { ...socket, seenAt: clock.now() });
      renewals.start();
    },
    /** `pods`: all that the connection may have a slot on. */
    ended(socket: EnvoySocket, pods: readonly string[]): void {
      const { proxy, connection, app } = socket;
      due.delete(keyOf(socket));
      for (const pod of pods) queueRelease(releases, { proxy, connection, pod, app });
      endings.start();
    },
    /** Releases that the store has not acknowledged. */
    releasesWaiting: () => releasesLeft(releases),
    isIdle: () => due.size === 0 && releasesLeft(releases) === 0,
    /** Sends the releases that wait. Open connections are renewed by the service that gets their next entries. */
    async close(): Promise<void> {
      closed = true;
      await Promise.all([renewals.stop(), endings.stop()]);
      if (!away) await endings.send();
    },
  };
}
