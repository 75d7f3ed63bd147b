/** The balance of a lease in shared memory: all workers take from it, each in one atomic step. */
import { type BalanceCell, type Cell, MISS, takeTokens } from "../../../core/lease.js";
import type { SharedMemory } from "../proxy.js";

export interface SharedCell extends BalanceCell {
  dict: SharedMemory;
  key: string;
  /** The balance after this worker's last step, or less; 0 after the lease has changed. */
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

/** As `getShared`. The entry of a value may have been deleted. */
function getValue(this: SharedCell): number {
  return (this.dict.get(this.key) as number | undefined) ?? 0;
}

/**
 * As `addShared`. A charge creates an entry that was deleted; tokens that are put back are dropped, because those of a
 * deleted entry were returned to the bucket.
 */
function addValue(this: ValueCell, delta: number): number {
  let balance = this.dict.incr(this.key, delta) as number | undefined;
  if (balance === undefined && delta < 0) {
    this.create(this.key);
    balance = this.dict.incr(this.key, delta) as number | undefined;
  }
  this.seen = balance ?? 0;
  return this.seen;
}

function takeValue(this: ValueCell, cost: number): number {
  if (cost > 0 && this.seen < cost * PLENTY && this.get() < cost) return MISS;
  if (cost <= 0) return Math.max(this.get(), 0);
  const { dict, key } = this;
  const left = dict.incr(key, -cost) as number | undefined;
  this.seen = left ?? 0;
  if (left !== undefined && left >= 0) return left;
  if (left !== undefined) dict.incr(key, cost);
  return MISS;
}

/** The balance of a value of a limit, whose entry is deleted when the value is released. */
export interface ValueCell extends SharedCell {
  /** Creates the entry. */
  create: (this: void, key: string) => void;
}

export function valueCell(dict: SharedMemory, key: string, create: (this: void, key: string) => void): ValueCell {
  return { dict, key, seen: 0, add: addValue, get: getValue, take: takeValue, create };
}

/** A balance for this many requests is unlikely to be spent before the next request is paid. */
const PLENTY = 100;

/**
 * As `takeTokens`, which reads before it takes. After a large balance was seen the read is skipped, because it costs a lock
 * and a search, as the taking does. If the tokens are gone nevertheless, they are put back and the read follows.
 */
function takeShared(this: SharedCell, cost: number): number {
  if (cost > 0 && this.seen >= cost * PLENTY) {
    const left = this.add(-cost);
    if (left >= 0) return left;
    this.add(cost);
  }
  return takeTokens(this, cost);
}

/** Creates the entry, which is never deleted. */
export function sharedCell(dict: SharedMemory, key: string): SharedCell {
  dict.safe_add(key, 0);
  return { dict, key, seen: 0, add: addShared, get: getShared, take: takeShared };
}

/**
 * The cell as the syncing worker sees it. Tokens are taken out at once, but added only by `pourIn`, after the record of
 * the grant was written: if the worker dies in between, tokens count as spent and can never be spent twice.
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

/** A counter whose entry is created when it is first changed, because most are never used. */
interface SharedCounter extends Cell {
  dict: SharedMemory;
  key: string;
}

/** There is no room for the entry. */
const NO_ROOM = 1e300;

function addCounter(this: SharedCounter, delta: number): number {
  this.dict.safe_add(this.key, 0);
  return (this.dict.incr(this.key, delta) as number | undefined) ?? NO_ROOM;
}

function getCounter(this: SharedCounter): number {
  return (this.dict.get(this.key) as number | undefined) ?? 0;
}

export function sharedCounter(dict: SharedMemory, key: string): SharedCounter {
  return { dict, key, add: addCounter, get: getCounter };
}
