/** Time as those see it who act by themselves: a clock and timers that a test or a simulation can drive. */

export interface Host {
  /** Milliseconds that never go back. */
  now(): number;
  /** Calls `work` once after the time given; answers how to forget it. */
  after(ms: number, work: () => void): () => void;
}

/** The process's own clock. Its timers do not keep the process alive. */
export const systemHost: Host = {
  now: () => performance.now(),
  after(ms, work) {
    const timer = setTimeout(work, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
