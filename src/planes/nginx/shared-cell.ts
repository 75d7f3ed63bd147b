/** The balance of a lease in shared memory: all workers take from it, each in one atomic step. */
import type { Cell } from "../../core/lease.js";
import type { SharedDict } from "./ngx.js";

export interface SharedCell extends Cell {
  dict: SharedDict;
  key: string;
}

function addShared(this: SharedCell, delta: number): number {
  return this.dict.incr(this.key, delta) as number;
}

function getShared(this: SharedCell): number {
  return this.dict.get(this.key) as number;
}

/** The entry is made here, once, and never dropped: entries are only ever made where there is room for them. */
export function sharedCell(dict: SharedDict, key: string): SharedCell {
  dict.safe_add(key, 0);
  return { dict, key, add: addShared, get: getShared };
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
