/** The limits of one app: what its bucket in the store needs, and what a node needs to decide. */
import type { CostProfile } from "./cost.js";

/** What a node does while the store is unavailable: apply the app's whole limit, its share of it, or admit nothing. */
export type OnStoreFailure = "open" | "local" | "closed";

/**
 * What happens to a transfer whose length was not declared and for which tokens are refused while it runs: abort it, pause
 * it until there are tokens, or let it pass and charge it at the end.
 */
export type UnknownLength = "cut" | "delay" | "charge";

/** The part of the limits that the store knows. */
export interface BucketLimits {
  id: string;
  /** Tokens per second; fractions are exact to one millionth. */
  guaranteed: number;
  /** Maximum tokens in the bucket. */
  burst: number;
  /** In an emergency, priority 0 is cut last. */
  priority: number;
  /** May borrow idle tokens of the cluster. */
  borrow: boolean;
  /**
   * Limits other than apps: `burst` tokens refill in this many seconds, in whole microseconds, which replaces `guaranteed`,
   * and the store deletes the bucket when it is full.
   */
  fillSeconds?: number;
}

export interface AppLimits extends BucketLimits {
  profile: CostProfile;
  onStoreFailure: OnStoreFailure;
  /** With "open": tokens per second of one node without the store, instead of the app's own limit. */
  failOpenTokens?: number;
  /** Decide and count as usual, but admit requests that would be refused. */
  dryRun: boolean;
  /** Default "charge". */
  unknownLength?: UnknownLength;
  /** The name in decisions, if it is not the id. */
  label?: string;
}
