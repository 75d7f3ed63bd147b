/** The result of a check by the limiter. */
import type { DecisionSource } from "../engine/account.js";

export type { DecisionSource };

export interface Decision {
  allowed: boolean;
  /** One of core/codes.ts. On a dry run a request is allowed with the code that it would be refused with. */
  code: string;
  /** The app is on a dry run. */
  dryRun: boolean;
  /** The configured app that pays; for a descriptor limit, its rule. */
  app: string;
  method: string;
  /** Tokens taken, or that would have been taken. */
  cost: number;
  /** Tokens on this node's lease after the decision; negative if tokens were spent before they were granted. */
  balance: number;
  /** Tokens left for the app, as far as this node knows. */
  remaining: number;
  /** The app's burst, reduced in an emergency. */
  limit: number;
  /** Tokens per second. */
  rate: number;
  /** 0 if waiting does not help or is not needed. */
  retryAfterMs: number;
  source: DecisionSource;
}
