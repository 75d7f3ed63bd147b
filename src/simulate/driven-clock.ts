/** A clock that the simulation moves: timers run at their due times, always in the same order. */
import type { Clock } from "../shared/clock.js";
import { createHeap } from "./heap.js";

interface Timer {
  at: number;
  /** Of two timers at the same moment the one that was asked for first runs first. */
  order: number;
  work: (() => void) | undefined;
}

export interface DrivenClock extends Clock {
  /** The moment of the next timer; infinitely far where there is none. */
  nextAt(): number;
  /** Moves on to the next timer and runs it. */
  runNext(): void;
  /** Moves on to a moment before the next timer. Time never goes back. */
  moveTo(at: number): void;
  /** As if the machine had slept: time has passed, and all timers are that much later. */
  sleep(ms: number): void;
}

export function createDrivenClock(): DrivenClock {
  let now = 0;
  let asked = 0;
  const timers = createHeap<Timer>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));

  /** The next one that nobody has forgotten. */
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
      const timer: Timer = { at: now + Math.max(ms, 0), order: asked++, work };
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
