/** A host whose time the test moves: seconds pass in milliseconds, and always in the same order. */
import type { Clock } from "../../src/shared/clock.js";

interface Event {
  at: number;
  order: number;
  work: () => void;
}

export interface SimulatedClock extends Clock {
  /** Lets time pass: every timer on the way runs at its moment, with all that follows from it at once. */
  advance(ms: number): Promise<void>;
}

export function createSimulatedClock(): SimulatedClock {
  let now = 0;
  let order = 0;
  const queue: Event[] = [];

  /** Sorted by time, then by the order of asking. */
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

/** Until all promises that could be kept have been kept: a message to the embedded store takes a handful of turns. */
async function settled(): Promise<void> {
  for (let i = 0; i < 12; i++) await Promise.resolve();
}
