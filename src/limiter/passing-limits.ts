/** Limits that come and go with what clients ask for: paid like apps, and never found by the id of a request. */

import { isRefused } from "../core/lease.js";
import type { AppLimits } from "../core/limits.js";
import type { Clock } from "../shared/clock.js";
import type { AppLease } from "./app-lease.js";
import type { AppRegister } from "./app-register.js";
import type { Decision } from "./decision.js";
import type { createSyncer } from "./syncer.js";

/** Beside the configured apps, on the same layers. */
export interface PassingLimits {
  /** Begins a limit, brings one back, or puts other numbers in force for one that is there. */
  enter(policy: AppLimits): AppLease;
  take(limit: AppLease, cost: number): Decision | Promise<Decision>;
  giveBack(limit: AppLease, tokens: number): void;
  /** Whether a refusal of this cost is remembered: taking it would be refused at once. */
  isRefused(limit: AppLease, cost: number): boolean;
  /** Nobody uses it any more: what it holds goes back, then it is forgotten. False while requests wait for it. */
  letGo(limit: AppLease): boolean;
  /** As many as there are, those on their way out included. */
  count(): number;
}

export interface PassingLimitsOptions {
  apps: Pick<AppRegister, "enter" | "leave" | "passingCount">;
  syncer: Pick<ReturnType<typeof createSyncer>, "changed" | "letGo">;
  clock: Clock;
  take: PassingLimits["take"];
  giveBack: PassingLimits["giveBack"];
}

export function createPassingLimits({ apps, syncer, clock, take, giveBack }: PassingLimitsOptions): PassingLimits {
  return {
    enter(policy) {
      const limit = apps.enter(policy);
      syncer.changed(limit);
      return limit;
    },
    take,
    giveBack,
    isRefused: ({ lease, cell }, cost) => cell.get() < cost && isRefused(lease, cost, clock.now()),
    letGo(limit) {
      if (limit.waiters.length > 0) return false;
      apps.leave(limit);
      syncer.letGo(limit);
      return true;
    },
    count: apps.passingCount,
  };
}
