/** Retries store calls. A call keeps its operation id, so it is executed once. */
import type { Clock } from "../shared/clock.js";
import { StoreError, type StoreErrorKind } from "../store/errors.js";

const ATTEMPTS = 4;
const FIRST_PAUSE_MS = 100;
const TRANSIENT: StoreErrorKind[] = ["timeout", "unavailable", "overloaded"];

/** True if a retry may succeed: the store was unavailable, overloaded, or did not reply in time. */
export function isTransient(error: unknown): boolean {
  return error instanceof StoreError && TRANSIENT.includes(error.kind);
}

/** Rejects with the last error after a few attempts, or at once if it is not transient or `stop()` is true. */
export async function withRetries<T>(clock: Clock, stop: () => boolean, call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (!isTransient(error) || attempt === ATTEMPTS || stop()) throw error;
    }
    await pause(clock, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  }
}

export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.after(ms, resolve));
}
