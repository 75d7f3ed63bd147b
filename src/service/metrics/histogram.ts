/** Histograms as plain numbers inside a larger array: a sum, and then one count per bucket, each value counted once. */

import { COST_BOUNDS } from "../../core/cost.js";

/** The numbers of a histogram with these bounds: the sum, the buckets, and the bucket above all bounds. */
export function histogramWidth(bounds: readonly number[]): number {
  return bounds.length + 2;
}

/** The bucket of a value. Most values are small, so the search begins there. */
export function bucketOf(bounds: readonly number[], value: number): number {
  let bucket = 0;
  while (bucket < bounds.length && value > bounds[bucket]!) bucket++;
  return bucket;
}

/** @param at where the histogram begins */
export function observe(numbers: Float64Array, at: number, bounds: readonly number[], value: number): void {
  numbers[at]! += value;
  numbers[at + 1 + bucketOf(bounds, value)]!++;
}

/** For times of calls over a network. */
export const callBoundsSeconds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
export const costBounds = COST_BOUNDS;
/** 0 is an exact estimate, 1 one that was off by itself. */
export const deviationBounds = [0, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10];
export const syncAppsBounds = [0, 1, 2, 5, 10, 25, 50, 100, 200, 400];
