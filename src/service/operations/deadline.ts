/** Bounds for what operators wait for: an answer in time, or a StoreError. */
import { StoreError } from "../../store/errors.js";

/** For what is only read. */
export const READ_MS = 3_000;
/** An order is repeated by the coordinator for a while when the store does not answer at once. */
export const ORDER_MS = 10_000;
/** All apps, one after the other. */
export const LONG_ORDER_MS = 60_000;

/** The work goes on; only nobody waits for it any more. */
export function within<T>(ms: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new StoreError("timeout", `no answer within ${ms} ms`)), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Undefined where the store does not answer in time; what is no failure of the store is thrown. */
export async function ifAnswered<T>(work: Promise<T>, ms = READ_MS): Promise<T | undefined> {
  try {
    return await within(ms, work);
  } catch (error) {
    if (error instanceof StoreError) return undefined;
    throw error;
  }
}

/** The results in order, with so many under way at a time; the first failure ends it. */
export async function inTurns<T, R>(items: readonly T[], most: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  let failed = false;
  async function worker(): Promise<void> {
    while (next < items.length && !failed) {
      const at = next++;
      try {
        results[at] = await work(items[at] as T);
      } catch (error) {
        failed = true;
        throw error;
      }
      // The embedded store never lets go by itself.
      if (at % TURN === TURN - 1) await new Promise((resolve) => setImmediate(resolve));
    }
  }
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
  return results;
}

const TURN = 50;
