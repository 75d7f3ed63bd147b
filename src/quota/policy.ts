/** The limits of L1 and L2 as operators state them, and how scripts want them stated. */
import { MICRO } from "../core/bucket.js";

export interface ClusterPolicy {
  id: string;
  /** Tokens at most. */
  capacity: number;
  /** Tokens per second. */
  rate: number;
  /** A node that is silent for longer counts as dead. */
  nodeTtlMs: number;
}

export interface AppPolicy {
  id: string;
  /** Tokens per second; a fraction is fine, to the millionth. */
  guaranteed: number;
  /** Tokens at most. */
  burst: number;
  /** 0 is the last to be cut in an emergency. */
  priority: number;
  /** May borrow from idle cluster tokens. */
  borrow: boolean;
}

/** Scripts take rates in whole micro-tokens per second. Rounded down: a limit is never exceeded by rounding. */
function microRate(tokensPerSecond: number): number {
  return Math.floor(tokensPerSecond * MICRO);
}

export function clusterArguments(policy: ClusterPolicy): number[] {
  return [policy.capacity, microRate(policy.rate), policy.nodeTtlMs];
}

export function appArguments(policy: AppPolicy): (string | number)[] {
  return [policy.id, policy.burst, microRate(policy.guaranteed), policy.priority];
}
