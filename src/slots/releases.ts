/** Sends the releases of ended connections: in batches, and repeated until the store has acknowledged them. */
import { newReleaseQueue, nextReleases, queueRelease, releasesAcknowledged } from "../engine/slots/releases.js";
import type { Clock } from "../shared/clock.js";
import type { SlotName, Slots } from "./slots.js";

export interface ReleasesOptions {
  slots: Pick<Slots, "release">;
  proxy: string;
  clock: Clock;
  leaseMs(): number;
  timeoutMs(): number;
  /** While the store is away nothing is sent. The caller calls `flush` when it is back. */
  isAway(): boolean;
  failed(error: unknown): void;
  queue?: ReturnType<typeof newReleaseQueue>;
}

/** Connections that end within this time share a call. */
const GATHER_MS = 2;
const RETRY_MS = 200;
export const MAX_RELEASES_WAITING = 100_000;

export type Releases = ReturnType<typeof createReleases>;

export function createReleases(options: ReleasesOptions) {
  const { slots, proxy, clock, queue = newReleaseQueue(MAX_RELEASES_WAITING) } = options;
  let flushing: Promise<void> | undefined;
  let stopTimer: (() => void) | undefined;

  function sendAfter(ms: number): void {
    stopTimer ??= clock.after(ms, () => {
      stopTimer = undefined;
      if (queue.waiting.length > 0 && !options.isAway()) flush().catch(options.failed);
    });
  }

  /** Rejects when the store fails. Releases that were not acknowledged stay in the queue. */
  function flush(): Promise<void> {
    flushing ??= sendAll().finally(() => {
      flushing = undefined;
      if (queue.waiting.length > 0) sendAfter(RETRY_MS);
    });
    return flushing;
  }

  async function sendAll(): Promise<void> {
    while (queue.waiting.length > 0) {
      const batch = nextReleases(queue);
      await slots.release(proxy, options.leaseMs(), batch.slots, { deadlineMs: options.timeoutMs() });
      releasesAcknowledged(queue, batch);
    }
  }

  return {
    add(...ended: SlotName[]): void {
      for (const { connection, pod, app } of ended) queueRelease(queue, { proxy, connection, pod, app });
      sendAfter(GATHER_MS);
    },
    /** Sends what is in the queue, together with what comes within a moment. */
    sendSoon(): void {
      if (queue.waiting.length > 0) sendAfter(GATHER_MS);
    },
    flush,
    waiting: () => queue.waiting.length,
    close(): void {
      stopTimer?.();
      stopTimer = undefined;
    },
  };
}
