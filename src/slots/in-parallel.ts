/** Processes a list with at most `most` items at a time. After the first failure no further item is started. */

export async function inParallel<T>(items: T[], most: number, work: (item: T) => Promise<void>): Promise<void> {
  let at = 0;
  let failed = false;
  async function worker(): Promise<void> {
    while (at < items.length && !failed) {
      try {
        await work(items[at++]!);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  }
  const ended = await Promise.allSettled(Array.from({ length: Math.min(most, items.length) }, worker));
  for (const one of ended) if (one.status === "rejected") throw one.reason;
}
