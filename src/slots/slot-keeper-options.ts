/** Options and events of a slot keeper. */
import type { Clock } from "../shared/clock.js";
import type { RouteLimits } from "./route-limits.js";
import type { Slots } from "./slots.js";

/** The options that may change at run time. */
export interface ConnectionOptions {
  /** By the name of the route. Other routes take no connections. */
  routes: ReadonlyMap<string, RouteLimits>;
  /** Deadline of an admission, and of each call of the store. */
  timeoutMs: number;
}

/** Calls of the store about the slots of a route. */
export interface SlotCalls {
  /** The hash tag of the route's keys, which changes with its placement. */
  tagOf(route: string): string;
  of(route: string): Pick<Slots, "acquire" | "renew" | "release">;
}

export interface SlotKeeperOptions extends ConnectionOptions {
  slots: SlotCalls;
  /** This process since its last start: see `newProxyId`. */
  proxy: string;
  /** Number of processes that share the limits, as far as is known: for `on_store_failure: local`. */
  liveProxies(): number;
  clock?: Clock;
  observer?: SlotKeeperObserver;
  /** From 0 to 1: for pauses and Retry-After that differ between processes and clients. */
  random?: () => number;
}

/** Events for metrics and logs. Handlers must not throw. */
export interface SlotKeeperObserver {
  decided?(decision: SlotDecision): void;
  /** The store stopped answering for a route, or answers again. */
  contactChanged?(route: string, away: boolean, error?: unknown): void;
  /** The store lost the slots of a route. Its connections are renewed before a new one is admitted. */
  stateLost?(route: string): void;
  /** Leases were lost, because this process was paused or the store lost writes. */
  lost?(count: number): void;
  /** A connection has its lease again, or its first one after it was admitted without the store. */
  reclaimed?(pod: string): void;
  /** A connection is closed because it lost its lease and there is no slot any more. */
  closed?(pod: string, code: string): void;
  /** A call of the store failed, and will be repeated. */
  failed?(operation: "renew" | "release" | "acquire", error: unknown): void;
}

export interface SlotDecision {
  allowed: boolean;
  /** As in `core/codes.ts`. A connection on a dry run is allowed with the code that it would be refused with. */
  code: string;
  route: string;
  app: string;
  /** The app is on a dry run. */
  dryRun?: boolean | undefined;
  /** Empty when refused. */
  pod: string;
  withoutStore: boolean;
  milliseconds: number;
}
