/** Estimates a quantile from the buckets of a histogram. */

/**
 * Interpolates linearly within a bucket; values above all bounds count as the last bound.
 * @param counts per bucket, not cumulative; the last one is above all bounds
 */
export function quantile(bounds: readonly number[], counts: readonly number[], share: number): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  let wanted = total * share;
  if (total === 0) return 0;
  for (const [i, count] of counts.entries()) {
    const upper = bounds[i];
    if (upper === undefined) break;
    if (count > 0 && wanted <= count) {
      const lower = bounds[i - 1] ?? 0;
      return lower + (upper - lower) * (wanted / count);
    }
    wanted -= count;
  }
  return bounds.at(-1) ?? 0;
}
