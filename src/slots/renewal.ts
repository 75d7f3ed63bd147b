/**
 * Keeps the leases of all connections of this process: renews them evenly over time, and takes stock whenever the store
 * was away, has forgotten, or this process itself stood still. Until then no new connection is let in.
 *
 * Every beat is one call, of the connections whose turn it is; an empty one tells that the process lives, and lets the
 * leases' clock go on. Each connection is renewed within a third of its lease.
 */

import type { Clock } from "../shared/clock.js";
import { StoreError } from "../store/errors.js";
import type { Held, HeldSlots } from "./held.js";
import { inParallel } from "./in-parallel.js";
import type { KeeperObserver } from "./keeper-options.js";
import { type RouteLimits, roomier } from "./limits.js";
import type { Releases } from "./releases.js";
import type { Slots } from "./slots.js";

export interface RenewalOptions {
  slots: Pick<Slots, "acquire" | "renew">;
  proxy: string;
  clock: Clock;
  held: HeldSlots;
  releases: Pick<Releases, "flush" | "waiting">;
  leaseMs(): number;
  timeoutMs(): number;
  /** The limits of a route as they are now; undefined when it is gone. */
  limitsOf(route: string): RouteLimits | undefined;
  /** False while nothing is to be kept alive: the process takes no connections. */
  isNeeded(): boolean;
  observer: KeeperObserver;
  random(): number;
}

/** So many go in one call: a batch keeps Redis busy for about a millisecond. */
const BATCH = 250;
/** Calls that may be under way when the store is slow, and when stock is taken. */
const MOST_CALLS = 8;
const RECLAIMS_AT_ONCE = 64;
const LONGEST_BEAT_MS = 1_000;
const SHORTEST_BEAT_MS = 20;
const FIRST_RETRY_MS = 50;
/** Every process beats, or finds a store again, well within this time; then all have taken stock. */
const ALL_SETTLED_MS = 3_000;

export type Renewal = ReturnType<typeof createRenewal>;

export function createRenewal(options: RenewalOptions) {
  const { slots, proxy, clock, held, releases, observer } = options;
  let away = false;
  let failures = 0;
  /** Stock must be taken before anybody is let in; and why is told to whom it concerns when it is found out. */
  let unsettled = false;
  let settling: Promise<void> | undefined;
  let memory = 0;
  /** A store that forgot is left to those whose connections live, until then. */
  let heldBackUntil = Number.NEGATIVE_INFINITY;
  let underWay = 0;
  let closed = false;
  let calls = 0;
  let lost = 0;
  let reclaimed = 0;
  let turnedOut = 0;
  let watchers: (() => void)[] = [];
  let dueAt = clock.now();
  let stopTimer = clock.after(0, beat);

  const beatMs = () => Math.min(Math.max(options.leaseMs() / 12, SHORTEST_BEAT_MS), LONGEST_BEAT_MS);
  const deadline = () => ({ deadlineMs: options.timeoutMs() });

  /** So late that leases may have run out meanwhile: the process stood still. */
  const isLate = () => clock.now() - dueAt > options.leaseMs() / 3;

  function schedule(ms: number): void {
    if (closed) return;
    stopTimer();
    dueAt = clock.now() + ms;
    stopTimer = clock.after(ms, beat);
  }

  function beat(): void {
    if (closed || settling !== undefined) return;
    if (away || unsettled || isLate()) return void settle();
    // A round takes a third of the lease, less a beat for what may be slow.
    const perBeat = Math.ceil((held.size() * beatMs()) / (options.leaseMs() / 3 - beatMs()));
    schedule(perBeat > BATCH ? (beatMs() * BATCH) / perBeat : beatMs());
    if (underWay >= MOST_CALLS || !(options.isNeeded() || held.size() > 0)) return;
    renew(held.next(Math.min(perBeat, BATCH))).then(
      (without) => {
        // In quiet times no lease is lost. Who finds one looks after all of them.
        if (without.length > 0 || unsettled) takeStock();
      },
      (error: unknown) => failed("renew", error),
    );
  }

  /** Answers those that turned out to have no lease. */
  async function renew(batch: Held[]): Promise<Held[]> {
    underWay++;
    calls++;
    try {
      // Soon enough to be sent again while the leases last.
      const deadlineMs = Math.min(options.timeoutMs(), options.leaseMs() / 3);
      const answer = await slots.renew(proxy, options.leaseMs(), batch, { deadlineMs });
      learn(answer.memory);
      if (answer.lost.length === 0) return [];
      const gone = new Set(answer.lost);
      return batch.filter((one) => gone.has(one.connection) && !one.ended);
    } finally {
      underWay--;
    }
  }

  /** What the store's answers say about its memory. */
  function learn(told: number): void {
    if (memory !== 0 && told !== memory) {
      unsettled = true;
      heldBackUntil = clock.now() + ALL_SETTLED_MS;
      clock.after(ALL_SETTLED_MS, changed);
      observer.forgotten?.();
    }
    memory = told;
  }

  /** At once, or after what is being looked at now. */
  function takeStock(): void {
    unsettled = true;
    if (!closed && settling === undefined && !away) void settle();
  }

  function settle(): Promise<void> {
    stopTimer();
    unsettled = true;
    settling = settleOnce()
      .then(
        () => {
          failures = 0;
        },
        (error: unknown) => failed("renew", error),
      )
      .finally(() => {
        settling = undefined;
        schedule(away || unsettled ? retryMs() : beatMs());
        changed();
      });
    return settling;
  }

  async function settleOnce(): Promise<void> {
    const batches: Held[][] = [];
    const all = held.all();
    for (let i = 0; i < all.length; i += BATCH) batches.push(all.slice(i, i + BATCH));
    // One call finds out whether the store is there; the others follow when it is.
    const without = await renew(batches.shift() ?? []);
    const remembered = memory;
    found();
    await inParallel(batches, MOST_CALLS, async (batch) => {
      without.push(...(await renew(batch)));
    });
    // Whose connection has ended makes room for those that live.
    if (releases.waiting() > 0) await releases.flush();
    const leased = without.filter((one) => one.leased);
    lost += leased.length;
    if (leased.length > 0) observer.lost?.(leased.length);
    for (const one of without) one.leased = false;
    // A store that forgot in the middle may not know those that came first.
    unsettled = memory !== remembered;
    await inParallel(without, RECLAIMS_AT_ONCE, reclaim);
  }

  function found(): void {
    if (!away) return;
    away = false;
    observer.contactChanged?.(false);
  }

  /** The connection lives. Where there is no room for it any more, it must end. */
  async function reclaim(one: Held): Promise<void> {
    if (one.ended) return;
    const now = options.limitsOf(one.route);
    const limits = { ...(now === undefined ? one.limits : roomier(one.limits, now)), leaseMs: options.leaseMs() };
    const { connection, app, pod } = one;
    one.told = true;
    calls++;
    const answer = await slots.acquire({ proxy, connection, app, pods: [pod], reclaim: true }, limits, deadline());
    learn(answer.memory);
    if (one.ended) return;
    if (answer.allowed) {
      one.leased = true;
      reclaimed++;
      observer.reclaimed?.(pod);
      return;
    }
    held.remove(one);
    one.ended = true;
    one.lost = true;
    turnedOut++;
    observer.closed?.(pod, answer.code);
    if (one.lostHandler !== undefined) queueMicrotask(one.lostHandler);
  }

  function failed(doing: "renew" | "release" | "acquire", error: unknown): void {
    observer.failed?.(doing, error);
    if (doing === "renew") {
      failures++;
      unsettled = true;
    }
    if (away || !isAbsence(error)) return;
    away = true;
    observer.contactChanged?.(true, error);
    if (settling === undefined) schedule(retryMs());
    changed();
  }

  /** One probe at a time, and not all processes at the same moment. */
  function retryMs(): number {
    const pause = Math.min(FIRST_RETRY_MS * 2 ** Math.max(failures - 1, 0), beatMs());
    return pause * (0.5 + options.random() / 2);
  }

  function changed(): void {
    const woken = watchers;
    watchers = [];
    for (const wake of woken) wake();
  }

  function nextChange(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const stop = clock.after(withinMs, resolve);
      watchers.push(() => {
        stop();
        resolve();
      });
    });
  }

  const isSettled = () => !away && !unsettled && settling === undefined && !isLate();
  const isOpen = () => isSettled() && clock.now() >= heldBackUntil;

  return {
    isAway: () => away,
    isSettled,
    memory: () => memory,
    learn,
    takeStock,
    failed,
    /** Whether the store may be asked for a new connection: true at once, or as soon as stock was taken until then. */
    async ready(until: number): Promise<boolean> {
      // A timer may fire after the first connection that comes when the process goes on.
      if (isLate() && settling === undefined && !away) takeStock();
      while (!isOpen()) {
        const leftMs = until - clock.now();
        if (away || closed || leftMs <= 0) return false;
        await nextChange(leftMs);
      }
      return true;
    },
    stats: () => ({ calls, lost, reclaimed, closed: turnedOut }),
    async close(): Promise<void> {
      closed = true;
      stopTimer();
      changed();
      await settling;
    },
  };
}

/** Whether asking again would be in vain for now; a store that is too busy or out of memory is there. */
function isAbsence(error: unknown): boolean {
  return error instanceof StoreError && absences.has(error.kind);
}

const absences = new Set<string>(["timeout", "unavailable", "denied", "closed"]);
