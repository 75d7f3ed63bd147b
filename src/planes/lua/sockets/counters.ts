/** Counters of slot decisions and lost leases in this worker. They are summed up and sent to the service like those of requests. */
import * as codes from "../../../core/codes.js";
import { addAt, countBucket } from "../counts.js";
import { running } from "../host.js";
import { nobodysNumbers } from "../http/counters.js";

/** The sum of the time in microseconds, then a histogram: one counter per bound, and one above. */
export const SLOTS_ASKED = "slots_asked";
/** Leases that were gone when they should have been renewed. */
export const SLOTS_LOST = "slots_lost";
/** Connections that have a lease again, or their first one after they were admitted without the store. */
export const SLOTS_RECLAIMED = "slots_reclaimed";
export const slotsRefused = (reason: string) => `slots_refused_${reason}`;
/** Connections that a dry run admitted without a slot. */
export const slotsDryRun = (reason: string) => `slots_dry_run_${reason}`;

/** As the service has them for `websocket_acquire_seconds`. */
export const ASKED_BOUNDS_SECONDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];

const OTHER = "other";

/** Reasons of refusals, in the order in which the service lists them. */
export const REFUSAL_REASONS = [
  codes.SLOT_LIMIT_EXCEEDED,
  codes.SLOT_TOTAL_LIMIT_EXCEEDED,
  codes.SLOT_APP_LIMIT_EXCEEDED,
  codes.SLOT_CLIENT_LIMIT_EXCEEDED,
  codes.SLOT_RATE_LIMITED,
  codes.SLOT_CLIENT_RATE_LIMITED,
  codes.SLOT_RELEASED,
  codes.SLOT_FORGOTTEN,
  codes.SLOT_INVALID_ARGUMENT,
  codes.STORE_UNAVAILABLE,
  OTHER,
];

function reasonOf(code: string): string {
  for (const reason of REFUSAL_REASONS) if (reason === code) return reason;
  return OTHER;
}

/** Adds to a counter with one number. */
export function countSlots(name: string, by: number): void {
  addAt(nobodysNumbers(name, 1), 0, by);
}

export function countSlotRefusal(code: string, dryRun: boolean): void {
  const reason = reasonOf(code);
  countSlots(dryRun ? slotsDryRun(reason) : slotsRefused(reason), 1);
}

/** Counts the time of a decision. */
export function countSlotDecision(askedAtMs: number): void {
  const milliseconds = Math.max(running.sync.freshNowMs() - askedAtMs, 0);
  const list = nobodysNumbers(SLOTS_ASKED, ASKED_BOUNDS_SECONDS.length + 2);
  addAt(list, 0, Math.floor(milliseconds * 1000 + 0.5));
  countBucket(list, 1, ASKED_BOUNDS_SECONDS, milliseconds / 1000, 1);
}
