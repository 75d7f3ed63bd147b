/** The balance of a lease in one process. A class: there is one per app, and closures need several times the memory. */
import { type BalanceCell, MISS } from "../core/lease.js";

export class NodeCell implements BalanceCell {
  value = 0;

  add(delta: number): number {
    this.value += delta;
    return this.value;
  }

  get(): number {
    return this.value;
  }

  take(cost: number): number {
    if (cost <= 0) return Math.max(this.value, 0);
    if (this.value < cost) return MISS;
    this.value -= cost;
    return this.value;
  }
}
