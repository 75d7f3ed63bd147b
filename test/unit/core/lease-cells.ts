/** For tests of the lease: a granted one, a plain cell, and a cell on which other workers take tokens in between. */
import { OK } from "../../../src/core/codes.js";
import {
  applyReply,
  type Cell,
  type Demand,
  defaultLeaseOptions,
  type Lease,
  type LeaseSituation,
  MISS,
  newLease,
  takeTokens,
} from "../../../src/core/lease.js";

export function plainCell(balance: number): Cell {
  let value = balance;
  return {
    add(delta) {
      value += delta;
      return value;
    },
    get: () => value,
  };
}

/** No request waits. */
export const NOBODY: Demand = { nextCost: 0, waitingCost: 0 };

/** A fast store, plentiful tokens and a bucket that gains more than is spent, unless given otherwise. */
export function situation(now: number, given: Partial<LeaseSituation> = {}): LeaseSituation {
  const usual = { options: defaultLeaseOptions, level: 0, plentiful: true };
  return { ...usual, gain: 1_000_000, capacity: 1_000_000, isLimit: false, now, ...given };
}

/** A lease that was granted `granted` tokens at `now`. */
export function leased(now: number, granted: number): { lease: Lease; cell: Cell } {
  const lease = newLease(defaultLeaseOptions, now);
  const cell = plainCell(0);
  applyReply(lease, cell, { granted, code: OK, retryAfterMs: 0, refusedCost: 0 }, now);
  return { lease, cell };
}

export interface SharedCell extends Cell {
  /** What the other workers have got so far. */
  takenByOthers(): number;
}

/**
 * Before each step on the cell another worker takes the next of `takes` from it, if it has so much; 0 is a step in
 * which nobody comes. Its own steps are interrupted likewise, so that the operations of several workers interleave.
 */
export function sharedCell(balance: number, takes: number[]): SharedCell {
  const inner = plainCell(balance);
  const waiting = [...takes];
  let taken = 0;
  function interrupt(): void {
    const cost = waiting.shift();
    if (cost !== undefined && cost > 0 && takeTokens(cell, cost) !== MISS) taken += cost;
  }
  const cell: SharedCell = {
    add(delta) {
      interrupt();
      return inner.add(delta);
    },
    get() {
      interrupt();
      return inner.get();
    },
    takenByOthers: () => taken,
  };
  return cell;
}
