/**
 * Measures how long a reply of a service takes, without the delay of this worker: while it is busy, a reply may have arrived and
 * not been read yet. A light thread wakes up again and again meanwhile: nginx handles what has arrived before it runs timers.
 */
import { freshNowMs } from "./clock.js";
import { ngx } from "./ngx.js";

export interface ReplyTimer {
  startedAt: number;
  /** When the worker last looked for input and found no reply. */
  lookedAt: number;
  ended: boolean;
}

const SAMPLE_MS = 3;
/** A worker that is on time has looked for input within this time. Less than what makes a store slow. */
const SLACK_MS = 2 * SAMPLE_MS + 2;

/** Right before the call. Not in a phase in which nginx cannot wait. */
export function startReplyTimer(): ReplyTimer {
  const now = freshNowMs();
  const timer: ReplyTimer = { startedAt: now, lookedAt: now, ended: false };
  ngx.thread.spawn(sample, timer);
  return timer;
}

function sample(this: void, timer: ReplyTimer): void {
  while (!timer.ended) {
    const before = freshNowMs();
    ngx.sleep(SAMPLE_MS / 1000);
    // In between, all replies were handled that had arrived before.
    if (!timer.ended) timer.lookedAt = before;
  }
}

/** Milliseconds that the reply took, delays of this worker excluded. */
export function endReplyTimer(timer: ReplyTimer, now: number): number {
  timer.ended = true;
  return Math.max(Math.min(now - timer.startedAt, timer.lookedAt - timer.startedAt + SLACK_MS), 0);
}
