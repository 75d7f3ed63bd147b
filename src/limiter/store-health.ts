/** How the store answers: the degradation level that follows from it, and when to try again after a failure. */
import {
  defaultDegradationOptions,
  degradationLevel,
  newDegradation,
  observeCall,
  pinLevel,
  STORE_ERROR,
  STORE_OK,
  STORE_TIMEOUT,
} from "../core/degradation.js";
import type { Clock } from "../shared/clock.js";
import { StoreError } from "../store/errors.js";
import type { LimiterObserver } from "./limiter.js";

const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 1000;

export function createStoreHealth(clock: Clock, observer: LimiterObserver) {
  const degradation = newDegradation(defaultDegradationOptions);
  let lastLevel = 0;
  let lastContact = Number.NEGATIVE_INFINITY;
  let failuresInARow = 0;
  let failures = 0;
  let retryAt = Number.NEGATIVE_INFINITY;

  function level(): number {
    const now = degradationLevel(degradation, defaultDegradationOptions, clock.now());
    if (now !== lastLevel) {
      const before = lastLevel;
      lastLevel = now;
      observer.levelChanged?.(now, before);
    }
    return now;
  }

  return {
    level,
    failures: () => failures,
    /** Not before then is the store asked again. */
    retryAt: () => retryAt,
    lastContact: () => lastContact,
    pin: (pinned: number, durationMs: number) => pinLevel(degradation, pinned, clock.now() + durationMs),

    /** A message about so many apps, begun at `started`, was answered. */
    heard(started: number, apps: number): void {
      const now = clock.now();
      observeCall(degradation, defaultDegradationOptions, now, STORE_OK, now - started);
      failuresInARow = 0;
      lastContact = now;
      observer.synced?.("ok", now - started, apps);
      level();
    },

    failed(started: number, apps: number, error: unknown): void {
      const now = clock.now();
      const timedOut = error instanceof StoreError && error.kind === "timeout";
      observeCall(degradation, defaultDegradationOptions, now, timedOut ? STORE_TIMEOUT : STORE_ERROR, now - started);
      failures++;
      // One probe at a time, and not all nodes at the same moment.
      const pause = Math.min(FIRST_RETRY_MS * 2 ** failuresInARow++, LONGEST_RETRY_MS);
      retryAt = now + pause * (0.5 + Math.random() / 2);
      observer.synced?.(timedOut ? "timeout" : "error", now - started, apps, error);
      level();
    },
  };
}
