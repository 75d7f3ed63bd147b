/** Asynchronous work on a list, with a limited number of items at a time. */

/** The embedded store replies synchronously; yield to the event loop after this many items. */
const ITEMS_PER_TURN = 50;

/** After the first failure no further item is started; it is thrown when those that were started have ended. */
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
  const ended = await Promise.allSettled(Array.from({ length: Math.min(most, items.length) }, worker));
  for (const one of ended) if (one.status === "rejected") throw one.reason;
  return results;
}
