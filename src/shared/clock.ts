/** Clock and timers, injectable in tests and simulations. */

export interface Clock {
  /** Milliseconds, monotonic. */
  now(): number;
  /** Calls `work` once after `ms`; returns a function that cancels it. */
  after(ms: number, work: () => void): () => void;
}

/** The clock of the process. Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, work) {
    const timer = setTimeout(work, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
