/** Repeats a call that the store did not answer, unchanged: with the same operation id it is carried out once. */

import type { Clock } from "../shared/clock.js";
import { StoreError, type StoreErrorKind } from "../store/errors.js";

const ATTEMPTS = 4;
const FIRST_PAUSE_MS = 100;
const PASSING: StoreErrorKind[] = ["timeout", "unavailable", "overloaded"];

/** True for what may be over in a moment: the store was not there, or there was no answer in time. */
export function isPassing(error: unknown): boolean {
  return error instanceof StoreError && PASSING.includes(error.kind);
}

/** Rejects with the last error after a few attempts, or at once where another attempt would not help or `stop` says so. */
export async function persist<T>(clock: Clock, stop: () => boolean, call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (!isPassing(error) || attempt === ATTEMPTS || stop()) throw error;
    }
    await pause(clock, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  }
}

export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.after(ms, resolve));
}
