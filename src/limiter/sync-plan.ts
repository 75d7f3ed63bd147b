/** What is worth telling the store about an app just now, and in which words. */
import { BORROW_RATIO } from "../core/borrow.js";
import {
  isRefused,
  isReportDue,
  type LeaseMessage,
  type LeasePolicy,
  needsRefill,
  planSync,
  returnAll,
  spentTokens,
} from "../core/lease.js";
import { type AppLease, dropOldRefunds, isBooked } from "./app-lease.js";

/** While the store gives less than is wanted, it is asked no more often: what trickles in is fetched in gulps. */
export const SCARCE_GAP_MS = 10;

export interface PlannedMessage {
  app: AppLease;
  message: LeaseMessage;
  /** Cost of the cheapest refusal that the answer can mean. */
  firstCost: number;
  /** Asked for more than the first who waits. */
  greedy: boolean;
}

export function isScarce(app: AppLease, now: number): boolean {
  return now - app.scarceAt < SCARCE_GAP_MS;
}

/** Whether there is something to say about an app. */
export function isDue(app: AppLease, policy: LeasePolicy, level: number, now: number): boolean {
  const { lease, cell } = app;
  // What is to go back, or is lost on the way, does not wait for the next spending: others may need it.
  if (app.unanswered || lease.returned !== app.bookedReturned) return true;
  if (app.leaving) return cell.get() !== 0 || !isBooked(app);
  if (isReportDue(lease, cell, policy, level, now)) return true;
  const scarce = isScarce(app, now);
  if (app.waiters.length > 0) return !scarce;
  const active = now - lease.activeAt < policy.idleMs;
  if (active) return !scarce && needsRefill(lease, cell, policy) && !isRefused(lease, 1, now);
  return cell.get() !== 0 || !isBooked(app);
}

/** Whether an app that has nothing to say will have nothing to say until it is used again. */
export function isAtRest(app: AppLease, policy: LeasePolicy, now: number): boolean {
  if (app.leaving) return true;
  return now - app.lease.activeAt >= policy.idleMs && app.cell.get() === 0 && app.waiters.length === 0;
}

export function planMessage(app: AppLease, policy: LeasePolicy, level: number, now: number): PlannedMessage {
  dropOldRefunds(app);
  if (app.leaving) return planLast(app);
  const firstCost = app.waiters[0]?.cost ?? 0;
  // All who wait are asked for at once, as far as the store is likely to have it; after a refusal only the first.
  const { guaranteed, borrow } = app.policy;
  const likely = app.remaining + ((now - app.heardAt) / 1000 + (borrow ? BORROW_RATIO : 0)) * guaranteed;
  const hoped = Math.floor(Math.min(app.waitingCost, likely + Math.max(app.cell.get(), 0)));
  const needed = app.cautious ? firstCost : Math.max(firstCost, hoped);
  const message = planSync(app.lease, app.cell, policy, level, needed, app.waitingCost, now);
  return { app, message, firstCost, greedy: needed > firstCost };
}

/** Of an app that is leaving: everything goes back, nothing is asked for. */
function planLast(app: AppLease): PlannedMessage {
  returnAll(app.lease, app.cell);
  const { granted, returned } = app.lease;
  const spent = Math.max(spentTokens(app.lease, app.cell), 0);
  return { app, message: { granted, returned, spent, need: 0, want: 0 }, firstCost: 0, greedy: false };
}
