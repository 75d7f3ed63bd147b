/** What the limiter answers, and how that looks to an HTTP client. */

/** Where a decision was made: from the local lease, by asking the store, from a remembered refusal, or without a store. */
export type DecisionSource = "local" | "remote" | "cached" | "without_store";

export interface Decision {
  allowed: boolean;
  /** OK, or why not: one of core/codes.ts. On a dry run a request is allowed with the code it would be refused with. */
  code: string;
  /** The app is on a dry run. */
  dryRun: boolean;
  /** The app that pays: a configured one. Of a limit of a rule: the rule. */
  app: string;
  method: string;
  /** Tokens taken, or that would have been. */
  cost: number;
  /** Tokens on this node's lease just then; below zero where some were spent before they were granted. */
  balance: number;
  /** Tokens left for this app, as far as this node knows. */
  remaining: number;
  /** The app's burst, less in an emergency. */
  limit: number;
  /** Tokens per second. */
  rate: number;
  /** 0 where no waiting helps or none is needed. */
  retryAfterMs: number;
  source: DecisionSource;
}
