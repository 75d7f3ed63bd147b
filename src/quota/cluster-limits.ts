/** The limits of the cluster bucket (L1), and limits as script arguments. */
import { MICRO } from "../core/bucket.js";
import type { BucketLimits } from "../core/limits.js";

export interface ClusterLimits {
  id: string;
  /** Maximum number of tokens. */
  capacity: number;
  /** Tokens per second. */
  rate: number;
  /** A node that sends no message for this long counts as dead. */
  nodeTtlMs: number;
}

/** Scripts take rates in whole micro-tokens per second, rounded down so that no limit is exceeded. */
function microRate(tokensPerSecond: number): number {
  return Math.floor(tokensPerSecond * MICRO);
}

export function clusterArguments({ capacity, rate, nodeTtlMs }: ClusterLimits): number[] {
  return [capacity, microRate(rate), nodeTtlMs];
}

export function appArguments({ id, burst, guaranteed, priority, fillSeconds = 0 }: BucketLimits): (string | number)[] {
  return [id, burst, fillSeconds === 0 ? microRate(guaranteed) : 0, priority, fillSeconds];
}
