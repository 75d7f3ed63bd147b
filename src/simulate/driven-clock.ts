/** A clock that the simulation moves: timers run at their due times, always in the same order. */
import type { Clock } from "../shared/clock.js";
import { createHeap } from "./heap.js";

interface Timer {
  at: number;
  /** Timers of the same time run in the order of their creation. */
  order: number;
  work: (() => void) | undefined;
}

export interface DrivenClock extends Clock {
  /** The time of the next timer; infinity if there is none. */
  nextAt(): number;
  /** Advances to the next timer and runs it. */
  runNext(): void;
  /** Advances to a time before the next timer. Never goes back. */
  moveTo(at: number): void;
  /** Advances the time and delays all timers by the same amount. */
  sleep(ms: number): void;
}

export function createDrivenClock(): DrivenClock {
  let now = 0;
  let created = 0;
  const timers = createHeap<Timer>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));

  /** The next timer that was not cancelled. */
  function next(): Timer | undefined {
    let first = timers.first();
    while (first !== undefined && first.work === undefined) {
      timers.takeFirst();
      first = timers.first();
    }
    return first;
  }

  return {
    now: () => now,
    after(ms, work) {
      const timer: Timer = { at: now + Math.max(ms, 0), order: created++, work };
      timers.add(timer);
      return () => {
        timer.work = undefined;
      };
    },
    nextAt: () => next()?.at ?? Number.POSITIVE_INFINITY,
    runNext() {
      const timer = next();
      if (timer === undefined) return;
      timers.takeFirst();
      now = timer.at;
      timer.work?.();
    },
    moveTo(at) {
      now = Math.max(now, at);
    },
    sleep(ms) {
      now += ms;
      for (const timer of timers.items()) timer.at += ms;
    },
  };
}
