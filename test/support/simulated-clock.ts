/** A clock that the test advances: timers run immediately, in a fixed order. */
import type { Clock } from "../../src/shared/clock.js";

interface Event {
  at: number;
  order: number;
  work: () => void;
}

export interface SimulatedClock extends Clock {
  /** Advances the time. Every timer due runs at its time, with all promises that follow from it. */
  advance(ms: number): Promise<void>;
}

export function createSimulatedClock(): SimulatedClock {
  let now = 0;
  let order = 0;
  const queue: Event[] = [];

  /** Sorted by time, then by creation. */
  function insert(event: Event): void {
    let low = 0;
    let high = queue.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = queue[middle]!;
      if (other.at < event.at || (other.at === event.at && other.order < event.order)) low = middle + 1;
      else high = middle;
    }
    queue.splice(low, 0, event);
  }

  return {
    now: () => now,
    after(ms, work) {
      const event: Event = { at: now + Math.max(ms, 0), order: order++, work };
      insert(event);
      return () => {
        event.work = () => {};
      };
    },
    async advance(ms) {
      const end = now + ms;
      while (queue.length > 0 && queue[0]!.at <= end) {
        const event = queue.shift()!;
        now = event.at;
        event.work();
        await settled();
      }
      now = end;
      await settled();
    },
  };
}

/** Lets all resolvable promises resolve. A call of the embedded store takes a few turns. */
async function settled(): Promise<void> {
  for (let i = 0; i < 12; i++) await Promise.resolve();
}
