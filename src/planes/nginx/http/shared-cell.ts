/** The balance of a lease in shared memory: all workers take from it, each in one atomic step. */
import { type Cell, takeTokens } from "../../../core/lease.js";
import type { SharedDict } from "../ngx.js";

export interface SharedCell extends Cell {
  dict: SharedDict;
  key: string;
  /** The balance after this worker's last step, or less; 0 since the lease last changed. */
  seen: number;
}

function addShared(this: SharedCell, delta: number): number {
  const balance = this.dict.incr(this.key, delta) as number;
  this.seen = balance;
  return balance;
}

function getShared(this: SharedCell): number {
  return this.dict.get(this.key) as number;
}

/** The entry is made here, once, and never dropped: entries are only ever made where there is room for them. */
export function sharedCell(dict: SharedDict, key: string): SharedCell {
  dict.safe_add(key, 0);
  return { dict, key, seen: 0, add: addShared, get: getShared };
}

/** A balance that pays for so many requests like this one is not gone before the next is paid. */
const PLENTY = 100;

/**
 * As `takeTokens`, which looks before it takes. Where plenty was seen a moment ago the look is spared: it takes a lock and
 * a search, as the taking does. Should all be gone nevertheless, it goes back at once and the look follows.
 */
export function takeShared(cell: SharedCell, cost: number): number {
  if (cost > 0 && cell.seen >= cost * PLENTY) {
    const left = cell.add(-cost);
    if (left >= 0) return left;
    cell.add(cost);
  }
  return takeTokens(cell, cost);
}

/**
 * The cell as the worker sees it that talks to the store. Tokens are taken out at once, but put in only by `pourIn`, after
 * the record of the grant was written: whoever dies in between leaves tokens that count as spent, never some that can
 * be spent twice.
 */
export interface PouringCell extends Cell {
  cell: SharedCell;
  held: number;
}

function addPouring(this: PouringCell, delta: number): number {
  if (delta < 0) return this.cell.add(delta) + this.held;
  this.held = this.held + delta;
  return this.cell.get() + this.held;
}

function getPouring(this: PouringCell): number {
  return this.cell.get() + this.held;
}

export function pouringCell(cell: SharedCell): PouringCell {
  return { cell, held: 0, add: addPouring, get: getPouring };
}

export function pourIn(pouring: PouringCell): void {
  if (pouring.held === 0) return;
  pouring.cell.add(pouring.held);
  pouring.held = 0;
}
