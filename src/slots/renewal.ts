/** Runs the slot engine of one route on Node: its beats, its calls of the store, and waiting for the end of a recovery. */
import { renewalMs } from "../core/slot-lease.js";
import { ANSWERED } from "../engine/slots/contact.js";
import type { HeldSlot } from "../engine/slots/held.js";
import {
  newKeeperState,
  nextRelease,
  RELEASE,
  RENEW,
  retryMs,
  type SlotCall,
  slotBeat,
} from "../engine/slots/keeper.js";
import { nextSlotCall, type SlotCallReply, slotCallDone } from "../engine/slots/recovery.js";
import { type RouteLimits, roomier } from "./route-limits.js";
import type { SlotKeeperOptions } from "./slot-keeper-options.js";
import { outcomeOf, type Slots } from "./slots.js";

/** A connection of this process. */
export interface Held extends HeldSlot<Held> {
  /** Under which it was admitted. */
  readonly limits: RouteLimits;
  /** It stays open without a slot, too. */
  readonly dryRun: boolean;
  /** Must be closed, because it has no slot any more. */
  lost: boolean;
  lostHandler?: () => void;
}

interface RenewalOptions extends Required<Pick<SlotKeeperOptions, "proxy" | "clock" | "observer" | "random">> {
  route: string;
  slots: Pick<Slots, "acquire" | "renew" | "release">;
  leaseMs: number;
  timeoutMs(): number;
  /** The current limits of the route; undefined when it was removed. */
  limits(): RouteLimits | undefined;
  /** A connection is not held any more, because there was no slot for it. */
  removed(slot: Held): void;
}

/** One call keeps Redis busy for about a millisecond. */
const RENEWALS_PER_CALL = 250;
const MAX_RENEWAL_CALLS = 8;
const MAX_RECLAIM_CALLS = 64;
/** Connections that end within this time share a call. */
const GATHER_MS = 2;

export function createRenewal(options: RenewalOptions) {
  const { slots, proxy, route, clock, observer } = options;
  const underWay = new Set<Promise<void>>();
  let closed = false;
  let lastError: unknown;
  let waiters: (() => void)[] = [];
  let stopGathering: (() => void) | undefined;

  const state = newKeeperState<Held>(
    {
      proxy,
      batch: RENEWALS_PER_CALL,
      fixedBeatMs: 0,
      maxRenewals: MAX_RENEWAL_CALLS,
      maxReclaims: MAX_RECLAIM_CALLS,
      events: {
        storeLost() {
          observer.contactChanged?.(route, true, lastError);
          if (state.recovery === undefined) schedule(retryMs(state, options.random()));
          wake();
        },
        storeFound: () => observer.contactChanged?.(route, false),
        stateLost: () => observer.stateLost?.(route),
        leasesLost: (count) => observer.lost?.(count),
        reclaimed: ({ pod }) => observer.reclaimed?.(pod),
        closed(slot, code) {
          options.removed(slot);
          if (slot.dryRun) return;
          slot.lost = true;
          observer.closed?.(slot.pod, code);
          if (slot.lostHandler !== undefined) queueMicrotask(slot.lostHandler);
        },
        recoveryEnded() {
          if (state.contact.away || state.contact.recoveryNeeded) schedule(retryMs(state, options.random()));
          wake();
        },
      },
    },
    options.leaseMs,
    clock.now(),
  );
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
    let reply: SlotCallReply;
    try {
      reply = { ...(await send(call)), outcome: ANSWERED };
    } catch (error) {
      reply = { outcome: failed(call.kind === RELEASE ? "release" : "renew", error) };
    }
    slotCallDone(state, call, reply, clock.now());
  }

  function send({ kind, slots: held, ended }: SlotCall<Held>) {
    const { leaseMs } = state;
    const timeoutMs = options.timeoutMs();
    if (kind === RELEASE) return slots.release(proxy, leaseMs, ended, { deadlineMs: timeoutMs });
    // A failed renewal must be repeated before the leases end.
    const renewalTimeoutMs = Math.min(timeoutMs, renewalMs(leaseMs));
    if (kind === RENEW) return slots.renew(proxy, leaseMs, held, { deadlineMs: renewalTimeoutMs });
    const { connection, app, client, pod, limits: before } = held[0]!;
    const limits = roomier(before, options.limits() ?? before);
    const request = { proxy, connection, app, client, pods: [pod], reclaim: true };
    return slots.acquire(request, { ...limits, leaseMs }, { deadlineMs: timeoutMs });
  }

  /** A call failed. Returns its outcome. */
  function failed(operation: "renew" | "release" | "acquire", error: unknown): string {
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
    run,
    failed,
    /** Makes the calls that are due within a moment: connections may have ended. */
    runSoon(): void {
      stopGathering ??= clock.after(GATHER_MS, () => {
        stopGathering = undefined;
        run();
      });
    },
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
    /** Makes no further calls, and waits for those under way. */
    async close(): Promise<void> {
      closed = true;
      stopTimer();
      stopGathering?.();
      wake();
      await Promise.allSettled(underWay);
    },
    /** Sends all releases; stops when the store fails. */
    async flushReleases(): Promise<void> {
      for (let call = nextRelease(state); call !== undefined; call = nextRelease(state)) await perform(call);
    },
  };
}
