/** What a limiter is given, what it promises, and what it tells those who watch it. */

import type { LeaseOptions } from "../core/lease.js";
import type { AppLimits } from "../core/limits.js";
import type { Clock } from "../shared/clock.js";
import type { LimiterAccount } from "./accounts.js";
import type { Decision } from "./decision.js";
import type { SyncTarget } from "./syncer.js";

/** What may change while the limiter runs. */
export interface LimiterSettings {
  /** Whoever grants tokens: a quota on a store, or a service that has one. Another one must share store and cluster. */
  target: SyncTarget;
  apps: AppLimits[];
  /** Apps that are not configured share the app "default", or are refused. */
  unknownApps?: "default" | "reject";
  lease?: Partial<LeaseOptions>;
  /** No decision waits longer for the store. */
  timeoutMs?: number;
  /** Per app and second, while the store is gone and the app's policy is "open". */
  failOpenTokens?: number;
}

export interface LimiterOptions extends LimiterSettings {
  /** The name of this node; each start of it is an epoch of its own. */
  node: string;
  clock?: Clock;
  observer?: LimiterObserver;
  /** Runs work at the end of this turn of the event loop; for a simulation, which has turns of its own. */
  defer?: (work: () => void) => void;
}

export interface LimiterObserver {
  /** Also of what a dry run would have refused. */
  refused?(decision: Decision): void;
  /** An exchange cost something else than estimated: by which part of the estimate. */
  deviated?(decision: Decision, actualCost: number, ratio: number): void;
  /** A message to the store has ended. */
  synced?(outcome: "ok" | "error" | "timeout", milliseconds: number, apps: number, error?: unknown): void;
  levelChanged?(level: number, before: number): void;
  emergencyChanged?(active: boolean): void;
}

export interface LimiterStats {
  /** Decisions by where they were made; refusals are counted in `refused` as well. */
  local: number;
  remote: number;
  cached: number;
  withoutStore: number;
  refused: number;
  /** Let pass, with a code that says why it would have been refused: their apps are on a dry run. */
  dryRunRefused: number;
  /** Messages to the store. */
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
  /** At once where the lease or a remembered refusal decides, as it does for most requests. */
  check(app: string, method: string, contentLength: number): Decision | Promise<Decision>;
  /** Takes so many tokens of a configured app, whatever they are for; 0 takes nothing and tells how things are. */
  take(app: string, cost: number): Decision | Promise<Decision>;
  /** Gives back what was taken of an app; never more than this node has spent of it. */
  giveBack(app: string, tokens: number): void;
  readonly limits: DescriptorLimits;
  /** An admitted exchange has ended: what really moved is charged, or given back, and learned from. */
  settle(decision: Decision, requestBytes: number, responseBytes: number): void;
  /** Told by whoever hears of it first: a message, a subscription, an operator. */
  setEmergency(active: boolean): void;
  pinLevel(level: number, durationMs: number): void;
  /**
   * Puts other settings in force, all at once; what is left out gets its default. Apps that stay keep their tokens, as
   * far as the new burst allows, their counters and what was learned. Requests that wait for an app that is gone are
   * decided by the new rules; what was admitted still settles, and all tokens go back.
   */
  reconfigure(settings: LimiterSettings): void;
  stats(): LimiterStats;
  /** Balance, and what the store last said, of each app that was used. */
  balances(): { app: string; balance: number; remaining: number; refusedCode: string }[];
  /** Reports, returns all tokens and leaves; waits at most `timeoutMs` for that. */
  close(): Promise<void>;
}
