/**
 * Budgets of data planes: a faulty or hostile one must neither fill the store nor take this process from the others. Planes
 * that share the common token cannot be told apart, and have one budget together.
 */
import { createHash } from "node:crypto";
import type { Clock } from "../clock.js";

/**
 * `nodes`: nodes of a shard at a time. `proxies`: proxies that hold connections. `pods`: pods that the configuration does not list.
 * `values`: values of limits. `slots`: connections named per second. `bytes`: bytes of messages per second.
 */
export const budgetNames = ["nodes", "proxies", "pods", "values", "slots", "bytes"] as const;
export type BudgetName = (typeof budgetNames)[number];

/** For the log. */
export const OVER_BUDGET = "a data plane exceeds its budget: its messages are rejected, and it decides by its policy";

export interface PlaneBudgetsOptions {
  /** @param isCommon for all planes that share the common token */
  most(budget: BudgetName, isCommon: boolean): number;
  clock: Clock;
  /** Called once a minute for each budget that a plane exceeds. */
  exceeded(plane: string, budget: BudgetName, most: number): void;
  /** Called for everything that is refused. */
  refused?(budget: BudgetName): void;
}

export interface PlaneBudgets {
  /**
   * Whether the plane may use this name. A name in use stays usable, and its place is free a minute after its last use.
   * @param scope names of different scopes are counted separately
   */
  uses(plane: string, budget: BudgetName, name: string, scope?: string | number): boolean;
  /** Takes an amount from a budget per second. It may be overdrawn once: then nothing is left for a while. False if it never has so much. */
  spends(plane: string, budget: BudgetName, amount: number): boolean;
}

export const unboundedPlanes: PlaneBudgets = { uses: () => true, spends: () => true };

/** Also the time between two reports about the same budget. */
const PERIOD_MS = 60_000;
/** Amounts that were not spent are kept for so long. */
const BURST_SECONDS = 10;

interface Amount {
  left: number;
  at: number;
}

export function createPlaneBudgets({ most, clock, exceeded, refused }: PlaneBudgetsOptions): PlaneBudgets {
  // The names of planes are configured and the budgets are listed, so the number of entries is bounded.
  /** The names in use and their last use, the longest unused first. */
  const used = new Map<string, Map<string, number>>();
  const amounts = new Map<string, Amount>();
  const reportedAt = new Map<string, number>();

  function refuse(plane: string, budget: BudgetName, limit: number): false {
    refused?.(budget);
    const key = `${budget} ${plane}`;
    const now = clock.now();
    if (now - (reportedAt.get(key) ?? Number.NEGATIVE_INFINITY) < PERIOD_MS) return false;
    reportedAt.set(key, now);
    exceeded(plane, budget, limit);
    return false;
  }

  return {
    uses(plane, budget, name, scope = "") {
      const key = `${budget} ${scope} ${plane}`;
      const names = used.get(key) ?? new Map<string, number>();
      used.set(key, names);
      const kept = keptName(name);
      const now = clock.now();
      const limit = most(budget, plane === "");
      if (!names.delete(kept) && names.size >= limit) {
        for (const [oldest, at] of names) {
          if (now - at < PERIOD_MS) break;
          names.delete(oldest);
        }
        if (names.size >= limit) return refuse(plane, budget, limit);
      }
      names.set(kept, now);
      return true;
    },

    spends(plane, budget, amount) {
      const key = `${budget} ${plane}`;
      const now = clock.now();
      const perSecond = most(budget, plane === "");
      const known = amounts.get(key) ?? { left: perSecond * BURST_SECONDS, at: now };
      const gained = (perSecond * Math.max(now - known.at, 0)) / 1000;
      const left = Math.min(known.left + gained, perSecond * BURST_SECONDS);
      const isAdmitted = left > 0 && amount <= perSecond * BURST_SECONDS;
      amounts.set(key, { left: isAdmitted ? left - amount : left, at: now });
      return isAdmitted || refuse(plane, budget, perSecond);
    },
  };
}

/** Longer names are remembered by their hash. */
const LONGEST_KEPT = 64;

function keptName(name: string): string {
  return name.length <= LONGEST_KEPT ? name : createHash("sha256").update(name).digest("base64");
}
