/**
 * Keeps the slots of the WebSocket connections that Envoys hold. A periodic log entry renews the lease of a connection, an
 * end entry releases its slot. Nothing else renews leases, so the slots of an Envoy that died are free after one lease.
 *
 * Envoy cannot be told to close a connection. A connection that lost its lease is therefore counted again even if the limit
 * has been reached since: new connections are refused until the count is below the limit.
 */

import { renewalMs } from "../../core/slot-lease.js";
import { UNAVAILABLE } from "../../engine/slots/contact.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import { mapConcurrently } from "../../shared/concurrently.js";
import { outcomeOf } from "../../slots/outcome.js";
import { createReleases, type Releases } from "../../slots/releases.js";
import type { SlotKeeperObserver } from "../../slots/slot-keeper-options.js";
import type { SlotLimits, Slots } from "../../slots/slots.js";
import { createConnectionStats, type EnvoyConnectionStats } from "./connection-stats.js";

export interface EnvoySocket {
  /** A worker of an Envoy since its last start. */
  proxy: string;
  connection: string;
  /** Empty if it ended before the service had assigned a pod. */
  pod: string;
  app: string;
  route: string;
}

export interface EnvoyConnectionsOptions {
  slots: Pick<Slots, "acquire" | "renew" | "release">;
  leaseMs(): number;
  timeoutMs(): number;
  /** All pods that a connection of the route may be on. */
  podsOf(route: string): readonly string[];
  /** The configured app that pays for an app of this name. */
  appOf(name: string): string;
  observer?: SlotKeeperObserver;
  clock?: Clock;
}

export interface EnvoyConnections {
  /** `node` is the name of the Envoy that reports it. */
  alive(socket: EnvoySocket, node: string): void;
  ended(socket: EnvoySocket): void;
  stats(): EnvoyConnectionStats;
  /** Releases that the store has not acknowledged. */
  releasesWaiting(): number;
  /** Sends the releases that wait. Open connections are renewed by the service that gets their next entries. */
  close(): Promise<void>;
}

interface Due extends EnvoySocket {
  seenAt: number;
}

const BATCH_SIZE = 250;
const PARALLEL_CALLS = 8;
const PARALLEL_RECLAIMS = 64;
/** Entries that arrive within this time share a call. */
const GATHER_MS = 5;
const RETRY_MS = 200;
/** Maximum number of Envoy workers with waiting releases, while the store is unavailable. The slots of others expire. */
const MAX_PROXIES = 10_000;
/** Reclaimed connections are counted regardless of the limit. */
const NO_LIMIT = 1_000_000_000;

const keyOf = ({ proxy, connection }: EnvoySocket) => `${proxy}/${connection}`;

export function createEnvoyConnections(options: EnvoyConnectionsOptions): EnvoyConnections {
  const { slots, leaseMs, timeoutMs, podsOf, appOf, observer = {}, clock = systemClock } = options;
  /** Reported, and not renewed yet. */
  const due = new Map<string, Due>();
  const releases = new Map<string, Releases>();
  const counted = createConnectionStats(clock, leaseMs);
  let away = false;
  let closed = false;
  let renewing: Promise<void> | undefined;
  let stopTimer: (() => void) | undefined;

  function schedule(ms: number): void {
    if (closed) return;
    stopTimer ??= clock.after(ms, () => {
      stopTimer = undefined;
      if (away) void probe();
      else void renewAll();
    });
  }

  function renewAll(): Promise<void> {
    renewing ??= renewDue()
      .catch((error: unknown) => failed("renew", error))
      .finally(() => {
        renewing = undefined;
        if (due.size > 0) schedule(away ? RETRY_MS : GATHER_MS);
      });
    return renewing;
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
    const { lost } = await slots.renew(batch[0]!.proxy, leaseMs(), batch, { deadlineMs });
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
    const limits: SlotLimits = {
      maxPerPod: NO_LIMIT,
      maxTotal: 0,
      maxPerApp: 0,
      ratePerSecond: 0,
      burst: 0,
      leaseMs: leaseMs(),
    };
    const deadline = { deadlineMs: timeoutMs() };
    const answer = await slots.acquire({ proxy, connection, app, pods: [pod], reclaim: true }, limits, deadline);
    if (due.get(key) === socket) due.delete(key);
    if (answer.allowed) observer.reclaimed?.(pod);
  }

  function failed(operation: "renew" | "release", error: unknown): void {
    observer.failed?.(operation, error);
    if (away || outcomeOf(error) !== UNAVAILABLE) return;
    away = true;
    observer.contactChanged?.(true, error);
    schedule(RETRY_MS);
  }

  function storeReplied(): void {
    if (!away) return;
    away = false;
    observer.contactChanged?.(false);
    for (const ended of releases.values()) flush(ended);
  }

  function flush(ended: Releases): void {
    if (ended.waiting() > 0) ended.flush().catch((error: unknown) => failed("release", error));
  }

  /** Checks with a single call whether the store is available again. */
  async function probe(): Promise<void> {
    const waiting = [...releases.values()].find((ended) => ended.waiting() > 0);
    if (due.size > 0) await renewAll();
    else if (waiting !== undefined) await waiting.flush().then(storeReplied, () => undefined);
    else away = false;
    if (away) schedule(RETRY_MS);
  }

  function releasesOf(proxy: string): Releases | undefined {
    let ended = releases.get(proxy);
    if (ended !== undefined) return ended;
    for (const [name, idle] of releases) {
      if (idle.waiting() > 0) continue;
      idle.close();
      releases.delete(name);
    }
    if (releases.size >= MAX_PROXIES) return undefined;
    ended = createReleases({
      slots,
      proxy,
      clock,
      leaseMs,
      timeoutMs,
      isAway: () => away,
      failed: (error) => failed("release", error),
    });
    releases.set(proxy, ended);
    return ended;
  }

  return {
    alive(socket, node) {
      // The script is still waiting for the decision about its slot.
      if (closed || socket.pod === "") return;
      const key = keyOf(socket);
      due.set(key, { ...socket, app: appOf(socket.app), seenAt: clock.now() });
      counted.seen(key, socket.pod, node);
      schedule(GATHER_MS);
    },

    ended(socket) {
      const { proxy, connection, pod, route } = socket;
      due.delete(keyOf(socket));
      counted.ended(keyOf(socket));
      const app = appOf(socket.app);
      // The service may have assigned a pod, or may still do so, after the client disconnected.
      const pods = pod === "" ? podsOf(route) : [pod];
      releasesOf(proxy)?.add(...pods.map((one) => ({ connection, pod: one, app })));
    },

    stats: counted.stats,
    releasesWaiting: () => [...releases.values()].reduce((sum, ended) => sum + ended.waiting(), 0),

    async close() {
      closed = true;
      stopTimer?.();
      await renewing;
      const all = [...releases.values()];
      if (!away) await Promise.allSettled(all.map((ended) => ended.flush()));
      for (const ended of all) ended.close();
    },
  };
}
