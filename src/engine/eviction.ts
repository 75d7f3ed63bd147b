/** When buckets of values that clients choose are released: each idle one, and more if there is little room. */

/** A value is released after this time without use, … */
const IDLE_MS = 300000;
/** … sooner if more than this share of the maximum has a bucket. */
const CROWDED_IDLE_MS = 60000;
const CROWDED = 0.5;
/** Above this share there is a surplus; above the other one if there was no room for a value. */
const NEARLY_FULL = 0.8;
/** A value that was used within this time is not released. */
const IN_USE_MS = 1000;

/** How often a host looks for values to release; the second while there is no room. */
export const SWEEP_MS = 1000;
export const FULL_SWEEP_MS = 100;

export interface ValueUse {
  /** Values with a bucket. */
  count: number;
  most: number;
  /** There was no room for a value since the last sweep. */
  hadNoRoom: boolean;
  /** The host releases the least recently used values first; otherwise those that it sees first. */
  oldestFirst: boolean;
}

export interface Eviction {
  /** A value is released after this time without use. */
  idleMs: number;
  /** So many are released after a shorter time; none if it is not positive. */
  surplus: number;
  surplusIdleMs: number;
}

export function evictionOf({ count, most, hadNoRoom, oldestFirst }: ValueUse): Eviction {
  const isCrowded = count >= most * CROWDED;
  return {
    idleMs: isCrowded ? CROWDED_IDLE_MS : IDLE_MS,
    surplus: Math.ceil(count - most * (hadNoRoom ? CROWDED : NEARLY_FULL)),
    surplusIdleMs: hadNoRoom || oldestFirst ? IN_USE_MS : CROWDED_IDLE_MS,
  };
}
