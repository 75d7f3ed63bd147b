/** How L1 pays for apps, what of it nodes hold, and what comes back. The buckets of limits do not touch L1. */
import { cutToHighest, giveBack, MICRO } from "../../core/bucket.js";
import { paidByOwn, payable } from "../../core/reserve.js";
import { type App, cutOwn } from "./app.js";
import type { Cluster } from "./cluster.js";

/** L1 pays tokens, for a node to hold. `tokens` are payable. */
export function pay(app: App, cluster: Cluster, tokens: number): void {
  if (app.isLimit || tokens === 0) return;
  const amount = tokens * MICRO;
  app.own = app.own - paidByOwn(amount, cluster);
  cluster.tokens = cluster.tokens - amount;
  cluster.demand.taken = cluster.demand.taken + tokens;
  cutOwn(app);
  setHeld(app, cluster, app.l1Held + tokens);
}

/** Pays at most `tokens`, and returns how many. */
export function payUpTo(app: App, cluster: Cluster, tokens: number): number {
  const paid = Math.max(Math.min(tokens, payable(app, cluster)), 0);
  pay(app, cluster, paid);
  return paid;
}

/** L1 gets back tokens that it has paid: what does not fit is lost. */
export function payBack(app: App, cluster: Cluster, tokens: number): void {
  if (app.isLimit || tokens === 0) return;
  cluster.demand.taken = cluster.demand.taken - tokens;
  giveBack(cluster, tokens);
  app.own = app.own + tokens * MICRO;
  cutOwn(app);
}

/** Sets the tokens of the app that nodes hold and L1 has paid. */
export function setHeld(app: App, cluster: Cluster, tokens: number): void {
  const held = Math.max(tokens, 0);
  cluster.held = Math.max(cluster.held + (held - app.l1Held) * MICRO, 0);
  app.l1Held = held;
  cutToHighest(cluster);
}
