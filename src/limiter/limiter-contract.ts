/** What a limiter needs and makes: its options, its observer, and its decisions. */

import type { AppLimits } from "../core/app-limits.js";
import type { CostProfile } from "../core/cost.js";
import type { LeaseOptions } from "../core/lease.js";
import type { ClientDecision, LimitView } from "../core/response-headers.js";
import type { DecisionSource } from "../engine/account.js";
import type { LimitRules, RequestAttributes } from "../limit-rules/limit-rules.js";
import type { ShardQuota } from "../quota/shard-quota.js";
import type { Clock } from "../shared/clock.js";

export type { DecisionSource, RequestAttributes };

/** The part of a decision that one of the request's limits has, besides that of its app. */
export interface LimitDecision extends LimitView {
  allowed: boolean;
  code: string;
  /** Tokens on this node's lease; unset if the cost was paid at once. */
  balance?: number | undefined;
  /** The bucket. Unset if nothing was taken that has to be settled. */
  bucket?: string | undefined;
}

/**
 * The result of a check. Numbers are those of the app; `allowed`, `code`, `retryAfterMs` and `limitName` are those of the
 * limit that decides.
 */
export interface Decision extends ClientDecision {
  method: string;
  /** The other limits of the request; unset without any. */
  limits?: readonly LimitDecision[] | undefined;
  /** The prices of the request's route, if it has its own. */
  profile?: CostProfile | undefined;
  /** The code of the app's own limit, if it is not `code`. */
  appCode?: string | undefined;
  /** Tokens on this node's lease after the decision; negative if tokens were spent before they were granted. */
  balance: number;
  /** Tokens per second. */
  rate: number;
  source: DecisionSource;
}

/** What is known at the end of an exchange besides its bytes. */
export interface ExchangeEnd {
  /** Tokens that the meter of the exchange has taken. */
  metered?: number | undefined;
  /** The cost that the backend has stated; INVALID_COST: none. It replaces the price of the bytes. */
  reportedCost?: number | undefined;
}

/** The part of a shard that a limiter needs. */
export type ShardTarget = Pick<ShardQuota, "grant" | "report" | "heartbeat"> &
  Partial<Pick<ShardQuota, "onRecall" | "inspect" | "credit">>;

/** The part of a quota that a limiter needs. */
export interface SyncTarget {
  shards: readonly ShardTarget[];
}

/** What may change while the limiter runs. */
export interface LimiterSettings {
  /** Grants tokens: a quota on a store. A new target must use the same store, cluster and number of shards. */
  target: SyncTarget;
  apps: AppLimits[];
  /** Unknown apps share the app "default" or are refused. */
  unknownApps?: "default" | "reject" | undefined;
  lease?: Partial<LeaseOptions> | undefined;
  /** Maximum time that a decision waits for the store. */
  timeoutMs?: number | undefined;
  /** Cap on tokens per second without the store, for apps with `onStoreFailure` "open" and no cap of their own. Default: none. */
  failOpenTokens?: number | undefined;
  /** Limits on any key, for requests that are checked with attributes. */
  limits?: LimitRules | undefined;
  /** Maximum number of values of `limits` with their own bucket. Further values share buckets. */
  maxValues?: number | undefined;
}

export interface LimiterOptions extends LimiterSettings {
  /** The name of this node. Each start is a new epoch. */
  node: string;
  clock?: Clock;
  observer?: LimiterObserver | undefined;
  /** Runs work at the end of this turn of the event loop. Simulations have their own turns. */
  defer?: (work: () => void) => void;
}

export type LimitedTransfer = "delayed" | "aborted";

export interface LimiterObserver {
  /** Called once per decision. `waited`: it was not immediate. */
  decided?(decision: Decision, milliseconds: number, waited: boolean): void;
  /** An admitted exchange has ended. */
  settled?(decision: Decision): void;
  /** The actual cost differs from the estimate; `ratio` is the relative error. */
  deviated?(decision: Decision, actualCost: number, ratio: number): void;
  /** A transfer of unknown length has no tokens for its bytes: called when it is first delayed, and when it is aborted. */
  transferLimited?(decision: Decision, action: LimitedTransfer): void;
  /** A sync has ended. */
  synced?(outcome: "ok" | "error" | "timeout", milliseconds: number, apps: number, error?: unknown): void;
  /** The degradation level of a shard. */
  levelChanged?(level: number, before: number, shard: number): void;
  emergencyChanged?(active: boolean): void;
}
