/** Connections that have ended, until the store has booked it: in batches, and again until it has. */
import type { Clock } from "../shared/clock.js";
import type { HeldSlot, Slots } from "./slots.js";

export interface ReleasesOptions {
  slots: Pick<Slots, "release">;
  proxy: string;
  clock: Clock;
  leaseMs(): number;
  timeoutMs(): number;
  /** While the store is gone nothing is tried: whoever finds it again calls `flush`. */
  isAway(): boolean;
  failed(error: unknown): void;
}

/** So many go in one call. */
const BATCH = 250;
/** Those that end within so short a time share a call. */
const GATHER_MS = 2;
const RETRY_MS = 200;
/** More are not kept. The oldest are forgotten first: their leases are the first to run out. */
const MOST_WAITING = 100_000;

export type Releases = ReturnType<typeof createReleases>;

export function createReleases(options: ReleasesOptions) {
  const { slots, proxy, clock } = options;
  let waiting: HeldSlot[] = [];
  let forgotten = 0;
  let calls = 0;
  let flushing: Promise<void> | undefined;
  let stopTimer: (() => void) | undefined;

  function add(...ended: HeldSlot[]): void {
    waiting.push(...ended);
    if (waiting.length > MOST_WAITING) {
      const surplus = waiting.length - MOST_WAITING;
      // A tenth more, so that not each of the next ones moves them all.
      const dropped = waiting.splice(0, surplus + MOST_WAITING / 10);
      forgotten += dropped.length;
    }
    later(GATHER_MS);
  }

  function later(ms: number): void {
    stopTimer ??= clock.after(ms, () => {
      stopTimer = undefined;
      if (waiting.length > 0 && !options.isAway()) flush().catch(options.failed);
    });
  }

  /** Sends all that wait. Rejects when the store fails; what was not booked then waits on. */
  function flush(): Promise<void> {
    flushing ??= sendAll().finally(() => {
      flushing = undefined;
      if (waiting.length > 0) later(RETRY_MS);
    });
    return flushing;
  }

  async function sendAll(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.slice(0, BATCH);
      calls++;
      await slots.release(proxy, options.leaseMs(), batch, { deadlineMs: options.timeoutMs() });
      // What came meanwhile stands behind them; what was forgotten meanwhile stood before.
      const booked = new Set(batch);
      waiting = waiting.filter((one) => !booked.has(one));
    }
  }

  return {
    add,
    flush,
    waiting: () => waiting.length,
    forgotten: () => forgotten,
    calls: () => calls,
    close(): void {
      stopTimer?.();
      stopTimer = undefined;
    },
  };
}
