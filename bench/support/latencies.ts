/** A histogram of durations that several processes can add up: mean and percentiles to within 5 %. */

/** Each bucket ends this many times above the one before it. */
const STEP = 1.05;
/** Upper end of the first bucket, in milliseconds. */
const FIRST = 1e-5;
const BUCKETS = 500;

export interface Latencies {
  counts: number[];
  totalMs: number;
}

export function newLatencies(): Latencies {
  return { counts: new Array<number>(BUCKETS).fill(0), totalMs: 0 };
}

export function addLatency(to: Latencies, ms: number): void {
  const bucket = Math.ceil(Math.log(Math.max(ms, FIRST) / FIRST) / Math.log(STEP));
  to.counts[Math.min(bucket, BUCKETS - 1)]!++;
  to.totalMs += ms;
}

export function sumLatencies(all: Latencies[]): Latencies {
  const sum = newLatencies();
  for (const { counts, totalMs } of all) {
    for (const [bucket, count] of counts.entries()) sum.counts[bucket]! += count;
    sum.totalMs += totalMs;
  }
  return sum;
}

const countOf = ({ counts }: Latencies) => counts.reduce((sum, count) => sum + count, 0);

export function meanMs(latencies: Latencies): number {
  return latencies.totalMs / countOf(latencies);
}

/** The duration that `share` of all durations do not exceed. */
export function percentileMs(latencies: Latencies, share: number): number {
  let left = countOf(latencies) * share;
  const bucket = latencies.counts.findIndex((count) => {
    left -= count;
    return left <= 0;
  });
  return FIRST * STEP ** bucket;
}
