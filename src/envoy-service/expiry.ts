/** Ends work that has not finished in time. Checked at intervals: a timer for each call would cost more than the call. */
import { every } from "../shared/background.js";

export type Expiry = ReturnType<typeof createExpiry>;

const CHECKS_PER_TIMEOUT = 8;

export function createExpiry(timeoutMs: number) {
  /** What ends the work → when it began. A Map keeps the order of insertion, so the oldest is first. */
  const begun = new Map<() => void, number>();
  let nowMs = 0;
  const tickMs = Math.max(Math.floor(timeoutMs / CHECKS_PER_TIMEOUT), 10);
  const stop = every(tickMs, () => {
    nowMs += tickMs;
    for (const [expire, beganMs] of begun) {
      if (nowMs - beganMs <= timeoutMs) return;
      begun.delete(expire);
      expire();
    }
  });
  return {
    /** Has no effect on work that has begun. */
    begin(expire: () => void): void {
      if (!begun.has(expire)) begun.set(expire, nowMs);
    },
    end(expire: () => void): void {
      begun.delete(expire);
    },
    close: stop,
  };
}
