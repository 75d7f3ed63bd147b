/** The limits of L1 and L2 as operators state them, and how scripts want them stated. */

import { MICRO } from "../core/bucket.js";
import type { BucketLimits } from "../core/limits.js";

export interface ClusterPolicy {
  id: string;
  /** Tokens at most. */
  capacity: number;
  /** Tokens per second. */
  rate: number;
  /** A node that is silent for longer counts as dead. */
  nodeTtlMs: number;
}

/** Scripts take rates in whole micro-tokens per second. Rounded down: a limit is never exceeded by rounding. */
function microRate(tokensPerSecond: number): number {
  return Math.floor(tokensPerSecond * MICRO);
}

export function clusterArguments(policy: ClusterPolicy): number[] {
  return [policy.capacity, microRate(policy.rate), policy.nodeTtlMs];
}

export function appArguments(policy: BucketLimits): (string | number)[] {
  const { id, burst, guaranteed, priority, fillSeconds = 0 } = policy;
  return [id, burst, fillSeconds === 0 ? microRate(guaranteed) : 0, priority, fillSeconds];
}
