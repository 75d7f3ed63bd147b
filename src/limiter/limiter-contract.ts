/** The interfaces of a limiter: options, observer, stats and operations. */

import type { LeaseOptions } from "../core/lease.js";
import type { AppLimits } from "../core/limits.js";
import type { Quota } from "../quota/quota.js";
import type { Clock } from "../shared/clock.js";
import type { LimiterAccount } from "./accounts.js";
import type { Decision } from "./decision.js";

/** The part of a quota that a limiter needs. */
export type SyncTarget = Pick<Quota, "grant" | "report" | "heartbeat">;

/** What may change while the limiter runs. */
export interface LimitOptions {
  /** Grants tokens: a quota on a store. A new target must use the same store and cluster. */
  target: SyncTarget;
  apps: AppLimits[];
  /** Unknown apps share the app "default" or are refused. */
  unknownApps?: "default" | "reject" | undefined;
  lease?: Partial<LeaseOptions> | undefined;
  /** Maximum time that a decision waits for the store. */
  timeoutMs?: number | undefined;
  /** Tokens per app and second without the store, if `onStoreFailure` is "open". */
  failOpenTokens?: number | undefined;
}

export interface LimiterOptions extends LimitOptions {
  /** The name of this node. Each start is a new epoch. */
  node: string;
  clock?: Clock;
  observer?: LimiterObserver | undefined;
  /** Runs work at the end of this turn of the event loop. Simulations have their own turns. */
  defer?: (work: () => void) => void;
}

export interface LimiterObserver {
  /** Called once per decision. `waited`: it was not immediate. */
  decided?(decision: Decision, milliseconds: number, waited: boolean): void;
  /** An admitted exchange has ended. */
  settled?(decision: Decision): void;
  /** The actual cost differs from the estimate; `ratio` is the relative error. */
  deviated?(decision: Decision, actualCost: number, ratio: number): void;
  /** A sync has ended. */
  synced?(outcome: "ok" | "error" | "timeout", milliseconds: number, apps: number, error?: unknown): void;
  levelChanged?(level: number, before: number): void;
  emergencyChanged?(active: boolean): void;
}

export interface LimiterStats {
  /** Decisions by source; refusals are also counted in `refused`. */
  local: number;
  remote: number;
  cached: number;
  withoutStore: number;
  refused: number;
  /** Admitted by a dry run, with the code of the refusal. */
  dryRunRefused: number;
  /** Sync messages. */
  syncs: number;
  failedSyncs: number;
  level: number;
  emergency: boolean;
  liveNodes: number;
}

/** Limits that a request's descriptors select. They exist beside the apps, and requests cannot name them. */
export interface DescriptorLimits {
  /** Adds a limit, brings one back, or changes the numbers of an existing one. */
  enter(limits: AppLimits): LimiterAccount;
  take(limit: LimiterAccount, cost: number): Decision | Promise<Decision>;
  giveBack(limit: LimiterAccount, tokens: number): void;
  /** Whether a refusal of this cost is cached: taking it would be refused at once. */
  isRefused(limit: LimiterAccount, cost: number): boolean;
  /** The limit is unused: its tokens are returned, then it is deleted. False while requests wait for it. */
  letGo(limit: LimiterAccount): boolean;
  /** Number of limits, including those that are leaving. */
  count(): number;
}

export interface Limiter {
  /** Returns a promise only if the request has to wait for a sync. */
  check(app: string, method: string, contentLength: number): Decision | Promise<Decision>;
  /** Takes `cost` tokens of an app; 0 takes nothing and returns the current state. */
  take(app: string, cost: number): Decision | Promise<Decision>;
  /** The decision about a request that is refused because of its identity. */
  refuse(code: string, method: string): Decision;
  /** Returns tokens of `take`, at most as many as this node has spent. */
  giveBack(app: string, tokens: number): void;
  readonly limits: DescriptorLimits;
  /** An admitted exchange has ended: charges or refunds the difference to its estimate. */
  settle(decision: Decision, requestBytes: number, responseBytes: number): void;
  /** Starts or ends an emergency before the next sync reports it. */
  setEmergency(active: boolean): void;
  pinLevel(level: number, durationMs: number): void;
  /**
   * Applies new options; omitted ones get their defaults. Remaining apps keep their tokens (up to the new burst), counters
   * and learned sizes. Requests that wait for a removed app are decided under the new options. Exchanges of removed apps
   * are still settled, and their tokens are returned.
   */
  reconfigure(options: LimitOptions): void;
  stats(): LimiterStats;
  /** The balance of each configured app, and its state in the last reply. */
  balances(): { app: string; balance: number; remaining: number; refusedCode: string }[];
  /** Sends the final report and returns all tokens; waits at most `timeoutMs`. */
  close(): Promise<void>;
}
