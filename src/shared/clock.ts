/** Clock and timers, injectable in tests and simulations. */
import { runInBackground } from "./background.js";
import { type ReplyTimer, startReplyTimer } from "./reply-timer.js";

export interface Clock {
  /** Milliseconds, monotonic. */
  now(): number;
  /** Calls `work` once after `ms`; returns a function that cancels it. */
  after(ms: number, work: () => void): () => void;
  /** Measures a reply without the delay of this process. Default: by `now`. */
  startReplyTimer?(): ReplyTimer;
}

/** Measures a reply by a clock. */
export function replyTimer(clock: Pick<Clock, "now" | "startReplyTimer">): ReplyTimer {
  if (clock.startReplyTimer !== undefined) return clock.startReplyTimer();
  const started = clock.now();
  const passed = () => clock.now() - started;
  return { missingMs: passed, end: passed };
}

/** The clock of the process. Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, work) {
    const timer = setTimeout(() => runInBackground("timer", work), ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
  startReplyTimer,
};
