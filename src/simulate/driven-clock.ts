/** A clock that the simulation moves: timers run at their due times, always in the same order. */

interface Timer {
  at: number;
  /** Undefined: cancelled. */
  work: (() => void) | undefined;
}

export function createDrivenClock() {
  let now = 0;
  /** In the order of their times. */
  const timers: Timer[] = [];

  /** Behind timers of the same time, so that these run in the order of their creation. */
  function placeFor(at: number): number {
    let [low, high] = [0, timers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (timers[middle]!.at <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function next(): Timer | undefined {
    let [first] = timers;
    while (first !== undefined && first.work === undefined) {
      timers.shift();
      [first] = timers;
    }
    return first;
  }

  return {
    now: () => now,
    after(ms: number, work: () => void): () => void {
      const timer: Timer = { at: now + Math.max(ms, 0), work };
      timers.splice(placeFor(timer.at), 0, timer);
      return () => {
        timer.work = undefined;
      };
    },
    /** The time of the next timer; infinity without timers. */
    nextAt: () => next()?.at ?? Number.POSITIVE_INFINITY,
    /** Advances to the next timer and runs it. */
    runNext(): void {
      const timer = next();
      if (timer === undefined) return;
      timers.shift();
      now = timer.at;
      timer.work?.();
    },
    /** Advances to a time before the next timer. Never goes back. */
    moveTo(at: number): void {
      now = Math.max(now, at);
    },
    /** Advances the time and delays all timers by the same amount. */
    sleep(ms: number): void {
      now += ms;
      for (const timer of timers) timer.at += ms;
    },
  };
}
