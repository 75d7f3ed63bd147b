/** The loops that measure L3, the same in Node and in LuaJIT. Their results prove that the work was done. */
import type { Cell } from "../src/core/lease.js";

/** Number of leases used in turn. */
export const CELLS = 1024;

export type Take = (this: void, cell: Cell, cost: number) => number;

interface PlainCell extends Cell {
  balance: number;
}

/** A balance used by one thread, as in a Node process. */
function plainCell(): PlainCell {
  return {
    balance: 0,
    add(delta: number): number {
      this.balance = this.balance + delta;
      return this.balance;
    },
    get(): number {
      return this.balance;
    },
  };
}

export function newCells(): Cell[] {
  const cells: Cell[] = [];
  for (let i = 0; i < CELLS; i++) cells.push(plainCell());
  return cells;
}

/** Gives every lease what `takeLoop` will spend, and one more token. */
export function fillCells(cells: Cell[], turns: number): void {
  for (const cell of cells) cell.add(turns * 3 + 1 - cell.get());
}

/** Each lease pays 3 tokens per turn. Returns the sum of the remaining balances. */
export function takeLoop(take: Take, cells: Cell[], turns: number): number {
  let sum = 0;
  for (let turn = 0; turn < turns; turn++) {
    for (let i = 0; i < CELLS; i++) sum = sum + take(cells[i]!, 3);
  }
  return sum;
}

/** The result of `takeLoop` if every take was paid. */
export function expectedSum(turns: number): number {
  return CELLS * (turns + (3 * turns * (turns - 1)) / 2);
}

/** The same loop without a take. */
export function emptyLoop(turns: number): number {
  let sum = 0;
  for (let turn = 0; turn < turns; turn++) {
    for (let i = 0; i < CELLS; i++) sum = sum + i;
  }
  return sum;
}
