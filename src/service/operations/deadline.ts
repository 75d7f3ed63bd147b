/** Bounds the time that operators wait for the store. */
import { StoreError } from "../../store/errors.js";

/** Timeout of reads. */
export const READ_MS = 3_000;
/** Timeout of changes: the coordinator retries while the store does not answer. */
export const CHANGE_MS = 10_000;
/** Timeout of a change to all apps. */
export const CHANGE_ALL_MS = 60_000;

/** Rejects with a StoreError after `ms`. The work itself continues. */
export function within<T>(ms: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new StoreError("timeout", `no reply within ${ms} ms`)), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Undefined if the store fails or does not answer in time; other errors are thrown. */
export async function ifAvailable<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await within(READ_MS, work);
  } catch (error) {
    if (error instanceof StoreError) return undefined;
    throw error;
  }
}

/** The embedded store replies synchronously; yield to the event loop after this many items. */
const ITEMS_PER_TURN = 50;

/** Like Promise.all over all items, with at most `most` calls at a time. The first error ends it. */
export async function mapConcurrently<T, R>(
  items: readonly T[],
  most: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
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
      if (at % ITEMS_PER_TURN === ITEMS_PER_TURN - 1) await new Promise((resolve) => setImmediate(resolve));
    }
  }
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
  return results;
}
