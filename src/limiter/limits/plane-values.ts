/** Bounds the values of limits that one data plane uses: a faulty or hostile one must fill neither the store nor this process. */
import { isOverflow, limitOfBucket } from "../../limit-rules/limit-rules.js";
import { createPlaneBudgets, type PlaneBudgets } from "../../shared/access/plane-budgets.js";
import type { Clock } from "../../shared/clock.js";

export interface PlaneValuesOptions {
  /** Values that a worker of a data plane remembers at a time. */
  maxValues(): number;
  clock: Clock;
  /** Called once a minute in which a data plane uses too many. */
  exceeded(plane: string, most: number): void;
}

/** For the log. */
export const TOO_MANY_VALUES =
  "a data plane uses too many values of limits: further ones share a bucket or get no tokens";

/** A data plane may have several workers, and their values change. */
const PER_MAX_VALUES = 10;
/** Planes that share the common token may be many. */
const [COMMON_FACTOR, LEAST_IN_COMMON] = [4, 10_000];

/** @param isCommon for all planes that share the common token */
export function mostValues(maxValues: number, isCommon: boolean): number {
  const most = maxValues * PER_MAX_VALUES;
  return isCommon ? Math.max(most * COMMON_FACTOR, LEAST_IN_COMMON) : most;
}

export type PlaneValues = ReturnType<typeof planeValues>;

export function createPlaneValues({ maxValues, clock, exceeded }: PlaneValuesOptions): PlaneValues {
  return planeValues(
    createPlaneBudgets({
      most: (_, isCommon) => mostValues(maxValues(), isCommon),
      clock,
      exceeded: (plane, _, most) => exceeded(plane, most),
    }),
  );
}

export function planeValues(budgets: PlaneBudgets) {
  return {
    /** Whether the data plane may use this bucket. False for a value, if it uses too many others. */
    admits(plane: string, id: string): boolean {
      return limitOfBucket(id) === "" || isOverflow(id) || budgets.uses(plane, "values", id);
    },
  };
}
