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
