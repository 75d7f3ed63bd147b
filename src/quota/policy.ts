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
  /**
   * For a limit that comes and goes: `burst` tokens fill it in so many seconds, exactly, in place of `guaranteed`, and the
   * store forgets it when it is full.
   */
  fillSeconds?: number;
}

/** Scripts take rates in whole micro-tokens per second. Rounded down: a limit is never exceeded by rounding. */
function microRate(tokensPerSecond: number): number {
  return Math.floor(tokensPerSecond * MICRO);
}

export function clusterArguments(policy: ClusterPolicy): number[] {
  return [policy.capacity, microRate(policy.rate), policy.nodeTtlMs];
}

export function appArguments(policy: AppPolicy): (string | number)[] {
  const { id, burst, guaranteed, priority, fillSeconds = 0 } = policy;
  return [id, burst, fillSeconds === 0 ? microRate(guaranteed) : 0, priority, fillSeconds];
}
