/** Runs the slot engine on Node: its beats, its calls of the store, and waiting for the end of a recovery. */
import { renewalMs } from "../core/slot-lease.js";
import { ALL_RECOVERED_MS } from "../engine/slots/contact.js";
import type { HeldSlot } from "../engine/slots/held.js";
import {
  newKeeperState,
  RECLAIM,
  RENEW,
  retryMs,
  type SlotCall,
  slotBeat,
  storeFailed,
} from "../engine/slots/keeper.js";
import { nextSlotCall, slotCallFailed, slotReclaimed, slotsReleased, slotsRenewed } from "../engine/slots/recovery.js";
import type { Clock } from "../shared/clock.js";
import { type RouteLimits, roomier } from "./limits.js";
import { outcomeOf } from "./outcome.js";
import { createReleases, MAX_RELEASES_WAITING } from "./releases.js";
import type { SlotKeeperObserver } from "./slot-keeper-options.js";
import type { Slots } from "./slots.js";

/** A connection of this process. */
export interface Held extends HeldSlot<Held> {
  /** Under which it was admitted. */
  readonly limits: RouteLimits;
  /** Must be closed, because it has no slot any more. */
  lost: boolean;
  lostHandler: (() => void) | undefined;
}

export interface RenewalOptions {
  slots: Pick<Slots, "acquire" | "renew" | "release">;
  proxy: string;
  clock: Clock;
  leaseMs(): number;
  timeoutMs(): number;
  /** The current limits of a route; undefined when it was removed. */
  limitsOf(route: string): RouteLimits | undefined;
  observer: SlotKeeperObserver;
  /** A connection is not held any more, because there was no slot for it. */
  removed(slot: Held): void;
  random(): number;
}

/** One call keeps Redis busy for about a millisecond. */
const RENEWALS_PER_CALL = 250;
const MAX_RENEWAL_CALLS = 8;
const MAX_RECLAIM_CALLS = 64;

export function createRenewal(options: RenewalOptions) {
  const { slots, proxy, clock, observer } = options;
  const stats = { calls: 0, lost: 0, reclaimed: 0, closed: 0 };
  const underWay = new Set<Promise<void>>();
  let closed = false;
  let lastError: unknown;
  let waiters: (() => void)[] = [];

  const state = newKeeperState<Held>(
    {
      proxy,
      leaseMs: options.leaseMs(),
      heartbeat: true,
      batch: RENEWALS_PER_CALL,
      fixedBeatMs: 0,
      maxRenewals: MAX_RENEWAL_CALLS,
      maxReclaims: MAX_RECLAIM_CALLS,
      maxReleasesWaiting: MAX_RELEASES_WAITING,
      holdBackMs: ALL_RECOVERED_MS,
      events: {
        storeLost() {
          observer.contactChanged?.(true, lastError);
          if (state.recovery === undefined) schedule(retryMs(state, options.random()));
          wake();
        },
        storeFound: () => observer.contactChanged?.(false),
        stateLost: () => observer.stateLost?.(),
        leasesLost(count) {
          stats.lost += count;
          observer.lost?.(count);
        },
        reclaimed({ pod }) {
          stats.reclaimed++;
          observer.reclaimed?.(pod);
        },
        closed(slot, code) {
          stats.closed++;
          slot.lost = true;
          options.removed(slot);
          observer.closed?.(slot.pod, code);
          if (slot.lostHandler !== undefined) queueMicrotask(slot.lostHandler);
        },
        recoveryEnded() {
          if (state.contact.away || state.contact.recoveryNeeded) schedule(retryMs(state, options.random()));
          wake();
        },
      },
    },
    clock.now(),
  );
  const releases = createReleases({
    slots,
    proxy,
    clock,
    leaseMs: options.leaseMs,
    timeoutMs: options.timeoutMs,
    isAway: () => state.contact.away,
    failed: (error) => storeFailed(state, failed("release", error)),
    queue: state.releases,
  });
  let stopTimer = clock.after(0, beat);

  function schedule(ms: number): void {
    stopTimer();
    if (!closed) stopTimer = clock.after(ms, beat);
  }

  function beat(): void {
    schedule(slotBeat(state, clock.now()));
    run();
  }

  /** Makes the calls that are due. Must be called after every event that is passed to the engine. */
  function run(): void {
    if (closed) return;
    for (let call = nextSlotCall(state); call !== undefined; call = nextSlotCall(state)) {
      const done = perform(call).finally(() => {
        underWay.delete(done);
        run();
      });
      underWay.add(done);
    }
  }

  async function perform(call: SlotCall<Held>): Promise<void> {
    try {
      if (call.kind === RENEW) await renew(call);
      else if (call.kind === RECLAIM) await reclaim(call);
      else {
        await releases.flush();
        slotsReleased(state, call);
      }
    } catch (error) {
      observer.failed?.("renew", error);
      lastError = error;
      slotCallFailed(state, call, outcomeOf(error));
    }
  }

  async function renew(call: SlotCall<Held>): Promise<void> {
    stats.calls++;
    // A failed renewal must be repeated before the leases end.
    const deadlineMs = Math.min(options.timeoutMs(), renewalMs(options.leaseMs()));
    const reply = await slots.renew(proxy, options.leaseMs(), call.slots, { deadlineMs });
    slotsRenewed(state, call, reply, clock.now());
  }

  async function reclaim(call: SlotCall<Held>): Promise<void> {
    const slot = call.slots[0]!;
    const { connection, app, pod } = slot;
    const current = options.limitsOf(slot.route);
    const limits = current === undefined ? slot.limits : roomier(slot.limits, current);
    stats.calls++;
    const reply = await slots.acquire(
      { proxy, connection, app, pods: [pod], reclaim: true },
      { ...limits, leaseMs: options.leaseMs() },
      { deadlineMs: options.timeoutMs() },
    );
    slotReclaimed(state, call, reply, clock.now());
  }

  /** A call failed that the engine did not ask for. Returns its outcome. */
  function failed(operation: "release" | "acquire", error: unknown): string {
    observer.failed?.(operation, error);
    lastError = error;
    return outcomeOf(error);
  }

  function wake(): void {
    const woken = waiters;
    waiters = [];
    for (const waiter of woken) waiter();
  }

  return {
    state,
    releases,
    run,
    failed,
    stats,
    /** Resolves when a recovery ends or the store is lost, and after `ms`. */
    nextChange(ms: number): Promise<void> {
      return new Promise((resolve) => {
        const stop = clock.after(ms, resolve);
        waiters.push(() => {
          stop();
          resolve();
        });
      });
    },
    async close(): Promise<void> {
      closed = true;
      stopTimer();
      wake();
      await Promise.allSettled(underWay);
    },
  };
}
