/** What a node admits without the store: a bucket that its workers share. */
import type { Allowance } from "./degradation.js";
import { type Cell, plainCell } from "./lease.js";

/** Clocks of workers that share a counter differ by less than this. */
const CLOCK_DIFFERENCE_MS = 1000;
const ROUNDING = 1e-6;

/** What was admitted without the store. Workers may share both counters. */
export interface AllowanceUse {
  /** Tokens taken from a full bucket. */
  used: Cell;
  /** Until when the bucket was refilled, in milliseconds; 0 before the first use. */
  refilledAt: Cell;
}

export function newAllowanceUse(): AllowanceUse {
  return { used: plainCell(), refilledAt: plainCell() };
}

/**
 * Takes `cost` from what may be admitted without the store: a bucket of `burst` tokens that gains `rate` per second. False,
 * and nothing is taken, if the bucket cannot pay. Workers that do this at once refuse nothing that the bucket can pay: what
 * they do twice and then undo concerns only the refill.
 */
export function takeAllowance(use: AllowanceUse, { rate, burst }: Allowance, cost: number, now: number): boolean {
  if (cost > burst) return false;
  refillAllowance(use, rate, now);
  if (use.used.add(cost) <= burst + ROUNDING) return true;
  use.used.add(0 - cost);
  return false;
}

/** A clock that was set back refills nothing. */
function refillAllowance({ used, refilledAt }: AllowanceUse, rate: number, now: number): void {
  const last = refilledAt.get();
  const elapsed = now - last;
  if (elapsed <= 0 && elapsed > 0 - CLOCK_DIFFERENCE_MS) return;
  if (Math.abs(refilledAt.add(elapsed) - elapsed - last) > ROUNDING) {
    // Another worker refills it for this time.
    refilledAt.add(0 - elapsed);
    return;
  }
  const gained = Math.min((elapsed * rate) / 1000, used.get());
  if (gained <= 0) return;
  const left = used.add(0 - gained);
  if (left < 0) used.add(Math.min(gained, 0 - left));
}
