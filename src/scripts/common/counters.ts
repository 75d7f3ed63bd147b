/** How a node's counters change the buckets: grants, spending, returns, and overdraft. */
import { charge, chargeable, MICRO } from "../../core/bucket.js";
import type { Outage } from "../../core/outage.js";
import {
  type App,
  type Counters,
  chargeApp,
  cutOwn,
  recordSpent,
  returnToApp,
  roomOf,
  take,
  takeSpare,
} from "./app.js";
import type { Cluster } from "./cluster.js";
import { pay, payBack, payUpTo, setHeld } from "./l1.js";
import {
  addUnpaid,
  type Entry,
  finalSpent,
  finalSpentField,
  heldTokens,
  isLost,
  type Ledger,
  type NodeState,
  paidAndHeld,
  setSpareSpent,
  spareSpent,
} from "./ledger.js";

/** Grants tokens that both layers can pay. */
export function grantTokens({ ledger, cluster }: NodeState, entry: Entry, app: App, tokens: number): void {
  take(app, tokens);
  pay(app, cluster, tokens);
  entry.granted = entry.granted + tokens;
  ledger.held = ledger.held + tokens;
}

/**
 * The store has lost the entry. Tokens spent and returned belong to a bucket that is lost as well; tokens that the node still
 * holds, or owes, are charged to the new one. Refunds of that spending are not credited: no bucket has paid for it.
 */
function startLostEntry({ redis, key }: Ledger, entry: Entry, message: Counters): void {
  entry.returned = message.returned;
  entry.spent = Math.min(message.granted - entry.returned, message.spent);
  entry.granted = entry.spent + entry.returned;
  if (entry.spent > 0) redis.call("HSET", key, finalSpentField(entry.app), entry.spent);
}

/** Whether the node got no replies in the outage. If the store lost its data in it, the node must have been there before. */
function missedOutage({ missedAt, first }: Ledger, { from, to }: Outage): boolean {
  return missedAt >= to && (from > 0 || first > 1);
}

/**
 * Charges overdraft, which is tokens without a grant; `spent` of them are spent already. The app is charged in full; refill that did not
 * fit in an outage of the store pays for what nodes have spent that missed replies. L1 pays what it would pay for a grant, until the
 * app is one burst below zero, and counts at most a burst of the app as held. The rest is written off: so no message stops other
 * apps, however often it is repeated.
 */
function chargeOverdraft({ cluster, ledger }: NodeState, entry: Entry, app: App, tokens: number, spent: number): void {
  if (tokens <= 0) return;
  const covered = Math.min(tokens, app.burst + Math.floor(app.tokens / MICRO), spent + roomOf(app));
  const spare = missedOutage(ledger, cluster.outage) ? takeSpare(app, spent) : 0;
  chargeApp(app, tokens, spare);
  if (spare > 0) setSpareSpent(ledger, entry.app, spareSpent(ledger, entry.app) + spare);
  entry.granted = entry.granted + tokens;
  if (app.isLimit) return;
  const unpaid = tokens - payUpTo(app, cluster, covered);
  addUnpaid(entry, unpaid, 0);
  cluster.writtenOff = cluster.writtenOff + unpaid;
}

/** Records spending. Paid tokens are spent first. */
function spendTokens(cluster: Cluster, entry: Entry, app: App, tokens: number): void {
  const paid = Math.min(tokens, paidAndHeld(entry));
  entry.spent = entry.spent + tokens;
  recordSpent(app, tokens);
  if (app.isLimit) return;
  addUnpaid(entry, paid - tokens, tokens - paid);
  setHeld(app, cluster, app.l1Held - paid);
}

/** Refunded spending that spare refill has paid for is held again, so the bucket has to pay for it now. */
function chargeSpareSpent({ ledger }: NodeState, entry: Entry, app: App, tokens: number): void {
  const paid = spareSpent(ledger, entry.app);
  if (paid === 0) return;
  const again = Math.min(paid, tokens);
  charge(app, again);
  setSpareSpent(ledger, entry.app, paid - again);
}

/**
 * Spending was refunded: the node holds `tokens` again, unpaid ones first. L1 gets back what it has paid of them and pays for
 * it like for a grant. Otherwise a counter that goes up and down would take from L1 what nobody may take.
 */
function holdAgain(cluster: Cluster, entry: Entry, app: App, tokens: number): void {
  const room = roomOf(app);
  entry.spent = entry.spent - tokens;
  recordSpent(app, 0 - tokens);
  if (app.isLimit) return;
  const unpaid = Math.min(tokens, entry.unpaidSpent);
  addUnpaid(entry, unpaid, 0 - unpaid);
  const paid = tokens - unpaid;
  // What does not count as held is not given back to L1: it would pay for it only once, although it can be spent again.
  const again = Math.min(paid, room);
  payBack(app, cluster, again);
  addUnpaid(entry, paid - payUpTo(app, cluster, again), 0);
}

/** Returns tokens that the node no longer holds, unpaid ones first: L1 gets back only what it has paid. */
export function returnTokens(cluster: Cluster, entry: Entry, app: App, tokens: number): void {
  if (tokens === 0) return;
  entry.returned = entry.returned + tokens;
  returnToApp(app, tokens);
  if (app.isLimit) return;
  const unpaid = Math.min(tokens, entry.unpaidHeld);
  addUnpaid(entry, 0 - unpaid, 0);
  setHeld(app, cluster, app.l1Held - (tokens - unpaid));
  payBack(app, cluster, tokens - unpaid);
}

/**
 * Applies a node's counters. Tokens that the node holds or has spent beyond the recorded grants are charged: grants lost
 * in a failover, spend while the store was unavailable, spend reported after the ledger was closed. Spend can decrease
 * by refunds. Counters are cumulative, so applying the same report again changes nothing.
 *
 * No message creates tokens: the app has paid for what an entry was granted and has not returned, except for spending that
 * cannot be refunded, and L1 for what is not recorded as unpaid.
 */
export function applyReport(state: NodeState, entry: Entry, message: Counters, app: App): void {
  const { ledger, cluster } = state;
  const before = heldTokens(entry);
  let spent = message.spent;
  if (isLost(ledger, entry)) startLostEntry(ledger, entry, message);
  else if (spent < entry.spent) {
    spent = Math.max(spent, finalSpent(ledger, entry.app));
  }
  // Counters only grow, except `spent`.
  const newlyReturned = Math.max(message.returned - entry.returned, 0);
  const returned = entry.returned + newlyReturned;
  const missing = Math.max(message.granted, spent + returned, entry.granted) - entry.granted;
  // Both are netted before a bucket changes, so that a wrong message cannot return more than it was granted.
  const both = Math.min(missing, newlyReturned);
  entry.granted = entry.granted + both;
  entry.returned = entry.returned + both;
  const overspent = Math.max(spent + returned - entry.granted, 0);
  // What is beyond the lowest level of the app is charged with a later message, because the counters are cumulative.
  const charged = missing > both ? Math.min(missing - both, chargeable(app)) : 0;
  const newlySpent = Math.min(spent, entry.granted + charged - returned) - entry.spent;
  cutOwn(app, charged - newlySpent);
  chargeOverdraft(state, entry, app, charged, Math.min(overspent, charged));
  if (newlySpent > 0) spendTokens(cluster, entry, app, newlySpent);
  else if (newlySpent < 0) {
    chargeSpareSpent(state, entry, app, 0 - newlySpent);
    holdAgain(cluster, entry, app, 0 - newlySpent);
  }
  returnTokens(cluster, entry, app, newlyReturned - both);
  // A closed epoch holds nothing: its node may no longer be listed, so nobody would return its tokens.
  if (ledger.closed) returnTokens(cluster, entry, app, heldTokens(entry));
  ledger.held = ledger.held + (heldTokens(entry) - before);
}
