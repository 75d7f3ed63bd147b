/** The balance of a lease that one worker has for itself: a plain number. */
import type { Cell } from "../../core/lease.js";

export interface PlainCell extends Cell {
  balance: number;
}

function addPlain(this: PlainCell, delta: number): number {
  this.balance = this.balance + delta;
  return this.balance;
}

function getPlain(this: PlainCell): number {
  return this.balance;
}

export function plainCell(): PlainCell {
  return { balance: 0, add: addPlain, get: getPlain };
}
