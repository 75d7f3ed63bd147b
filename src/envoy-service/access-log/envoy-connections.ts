/**
 * The slots of WebSockets that Envoys hold, kept by what their access logs tell: an entry of one that lives renews its
 * lease, an entry of one that has ended frees it. Nothing is renewed unasked, so what an Envoy that died held is free
 * within a lease.
 *
 * Envoy ends no connection on anybody's word. One that lost its lease is therefore counted again even where the limit is
 * reached meanwhile: new ones are refused until the numbers fit.
 */

import { renewalMs } from "../../core/slot-lease.js";
import { UNAVAILABLE } from "../../engine/slots/contact.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import { inParallel } from "../../slots/in-parallel.js";
import { outcomeOf } from "../../slots/outcome.js";
import { createReleases, type Releases } from "../../slots/releases.js";
import type { SlotKeeperObserver } from "../../slots/slot-keeper-options.js";
import type { SlotLimits, Slots } from "../../slots/slots.js";
import { createLiveSockets, type LiveSockets } from "./live-sockets.js";

export interface EnvoySocket {
  /** The worker of an Envoy, in one life of it. */
  proxy: string;
  connection: string;
  /** Empty where it ended before the service had placed it. */
  pod: string;
  app: string;
  route: string;
}

export interface EnvoyConnectionsOptions {
  slots: Pick<Slots, "acquire" | "renew" | "release">;
  leaseMs(): number;
  timeoutMs(): number;
  /** The pods on which a connection of the route may have been placed. */
  podsOf(route: string): readonly string[];
  /** The configured app that one of this name pays as. */
  appOf(name: string): string;
  observer?: SlotKeeperObserver;
  clock?: Clock;
}

export interface EnvoyConnections {
  /** It lives, as the Envoy of this name tells. */
  alive(socket: EnvoySocket, node: string): void;
  ended(socket: EnvoySocket): void;
  numbers(): ReturnType<LiveSockets["numbers"]>;
  /** Ended, and not yet booked. */
  releasesWaiting(): number;
  /** Books what has ended. What lives goes on living, and is renewed by whoever hears of it next. */
  close(): Promise<void>;
}

interface Due extends EnvoySocket {
  seenAt: number;
}

const BATCH = 250;
const MOST_CALLS = 8;
const RECLAIMS_AT_ONCE = 64;
/** Entries that come within so short a time share calls. */
const GATHER_MS = 5;
const RETRY_MS = 200;
/** Envoys' workers with ended connections that wait for a store that is away; further ones are left to their leases. */
const MOST_PROXIES = 10_000;
/** More than any pod has: see above. */
const NO_LIMIT = 1_000_000_000;

const keyOf = ({ proxy, connection }: EnvoySocket) => `${proxy}/${connection}`;

export function createEnvoyConnections(options: EnvoyConnectionsOptions): EnvoyConnections {
  const { slots, leaseMs, timeoutMs, podsOf, appOf, observer = {}, clock = systemClock } = options;
  /** To be renewed, and not yet booked. */
  const due = new Map<string, Due>();
  const releases = new Map<string, Releases>();
  const live = createLiveSockets(clock, leaseMs);
  let away = false;
  let closed = false;
  let renewing: Promise<void> | undefined;
  let stopTimer: (() => void) | undefined;

  function later(ms: number): void {
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
        if (due.size > 0) later(away ? RETRY_MS : GATHER_MS);
      });
    return renewing;
  }

  async function renewDue(): Promise<void> {
    const lost: Due[] = [];
    await inParallel(takeBatches(), MOST_CALLS, async (batch) => {
      lost.push(...(await renew(batch)));
      found();
    });
    if (lost.length === 0) return;
    observer.lost?.(lost.length);
    await inParallel(lost, RECLAIMS_AT_ONCE, reclaim);
  }

  /** By proxy, as the store counts them. What was not renewed while it was fresh is left to the next entry. */
  function takeBatches(): Due[][] {
    const oldest = clock.now() - renewalMs(leaseMs());
    const open = new Map<string, Due[]>();
    const batches: Due[][] = [];
    for (const [key, one] of due) {
      if (one.seenAt < oldest) {
        due.delete(key);
        continue;
      }
      let batch = open.get(one.proxy);
      if (batch === undefined || batch.length === BATCH) {
        batch = [];
        open.set(one.proxy, batch);
        batches.push(batch);
      }
      batch.push(one);
    }
    return batches;
  }

  async function renew(batch: Due[]): Promise<Due[]> {
    const deadlineMs = Math.min(timeoutMs(), renewalMs(leaseMs()));
    const { lost } = await slots.renew(batch[0]!.proxy, leaseMs(), batch, { deadlineMs });
    const gone = new Set(lost);
    const without: Due[] = [];
    for (const one of batch) {
      // Ended meanwhile, or told of once more.
      if (due.get(keyOf(one)) !== one) continue;
      if (gone.has(one.connection)) without.push(one);
      else due.delete(keyOf(one));
    }
    return without;
  }

  async function reclaim(one: Due): Promise<void> {
    const key = keyOf(one);
    if (due.get(key) !== one) return;
    const { proxy, connection, app, pod } = one;
    const limits: SlotLimits = {
      ...{ maxPerPod: NO_LIMIT, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 0, leaseMs: leaseMs() },
    };
    const deadline = { deadlineMs: timeoutMs() };
    const answer = await slots.acquire({ proxy, connection, app, pods: [pod], reclaim: true }, limits, deadline);
    if (due.get(key) === one) due.delete(key);
    if (answer.allowed) observer.reclaimed?.(pod);
  }

  function failed(doing: "renew" | "release", error: unknown): void {
    observer.failed?.(doing, error);
    if (away || outcomeOf(error) !== UNAVAILABLE) return;
    away = true;
    observer.contactChanged?.(true, error);
    later(RETRY_MS);
  }

  function found(): void {
    if (!away) return;
    away = false;
    observer.contactChanged?.(false);
    for (const ended of releases.values()) flush(ended);
  }

  function flush(ended: Releases): void {
    if (ended.waiting() > 0) ended.flush().catch((error: unknown) => failed("release", error));
  }

  /** One call finds out whether the store is back. */
  async function probe(): Promise<void> {
    const waiting = [...releases.values()].find((ended) => ended.waiting() > 0);
    if (due.size > 0) await renewAll();
    else if (waiting !== undefined) await waiting.flush().then(found, () => undefined);
    else away = false;
    if (away) later(RETRY_MS);
  }

  function releasesOf(proxy: string): Releases | undefined {
    let ended = releases.get(proxy);
    if (ended !== undefined) return ended;
    for (const [name, idle] of releases) {
      if (idle.waiting() > 0) continue;
      idle.close();
      releases.delete(name);
    }
    if (releases.size >= MOST_PROXIES) return undefined;
    ended = createReleases({
      ...{ slots, proxy, clock, leaseMs, timeoutMs, isAway: () => away },
      failed: (error) => failed("release", error),
    });
    releases.set(proxy, ended);
    return ended;
  }

  return {
    alive(socket, node) {
      // Whether it gets a slot at all is still being asked.
      if (closed || socket.pod === "") return;
      const one = { ...socket, app: appOf(socket.app), seenAt: clock.now() };
      due.set(keyOf(one), one);
      live.seen(keyOf(one), socket.pod, node);
      later(GATHER_MS);
    },

    ended(socket) {
      const { proxy, connection, pod, route } = socket;
      due.delete(keyOf(socket));
      live.gone(keyOf(socket));
      const app = appOf(socket.app);
      // It may have been placed, or be placed yet, though nobody was there any more to hear where.
      const pods = pod === "" ? podsOf(route) : [pod];
      releasesOf(proxy)?.add(...pods.map((one) => ({ connection, pod: one, app })));
    },

    numbers: live.numbers,
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
