/** What a limiter has to say about one app, and what an answer means for it beyond what all planes have in common. */
import { OK } from "../core/codes.js";
import { applyReply, type LeaseMessage, type LeaseOptions } from "../core/lease.js";
import { bookCounters, isDue, isLeavingDue, type PlannedSync, planLastMessage, planMessage } from "../core/sync.js";
import { type AppLease, beginAnew, cutTo, hasLastWord } from "./app-lease.js";

export function hasNews(app: AppLease, policy: LeaseOptions, level: number, now: number): boolean {
  if (app.leaving) return isLeavingDue(app, app.lease, app.cell) || hasLastWord(app);
  return isDue(app, app.lease, app.cell, policy, level, app.waitingCost, now);
}

export function planApp(app: AppLease, policy: LeaseOptions, level: number, now: number): PlannedSync {
  const { lease, cell, waiters, waitingCost } = app;
  if (app.lastWord !== undefined) return { message: app.lastWord, firstCost: 0, greedy: false, partial: false };
  if (app.leaving) {
    const planned = planLastMessage(lease, cell);
    if (hasLastWord(app) && cell.get() === 0) app.lastWord = planned.message;
    return planned;
  }
  for (const waiter of waiters) waiter.inMessage = true;
  const firstCost = waiters[0]?.cost ?? 0;
  const { guaranteed, borrow } = app.policy;
  return planMessage(app, lease, cell, policy, level, guaranteed, borrow, firstCost, waitingCost, now);
}

/** Tokens of an answer that was lost before come back with this one: then it was not the last word yet. */
export function bookLastWord(app: AppLease, said: LeaseMessage, granted: number, now: number): void {
  app.lastWord = undefined;
  bookCounters(app, said);
  if (granted === said.granted) beginAnew(app, said);
  else applyReply(app.lease, app.cell, granted, OK, 0, 0, now);
}

/** An answer to a question under other settings: the tokens count, as far as they fit. False where nobody may have them. */
export function bookOld(app: AppLease, said: LeaseMessage, granted: number, remaining: number, now: number): boolean {
  bookCounters(app, said);
  applyReply(app.lease, app.cell, granted, OK, 0, 0, now);
  if (app.leaving) return false;
  cutTo(app, app.limit);
  app.remaining = Math.min(remaining, app.limit);
  app.heardAt = now;
  return true;
}

/**
 * A refusal of a limit is believed for so long at most: one per hour would else keep those out for whom another node has
 * given tokens back.
 */
const LIMIT_REFUSAL_MS = 1000;

export function believeForShort({ lease, policy }: AppLease, now: number): void {
  if (policy.fillSeconds !== undefined) lease.refusedUntil = Math.min(lease.refusedUntil, now + LIMIT_REFUSAL_MS);
}
