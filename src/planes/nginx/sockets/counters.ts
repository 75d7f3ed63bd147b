/** Counts what becomes of connections in this worker, under names that the services know; handed on and added up like requests. */
import {
  SLOT_APP_LIMIT_EXCEEDED,
  SLOT_FORGOTTEN,
  SLOT_INVALID_ARGUMENT,
  SLOT_LIMIT_EXCEEDED,
  SLOT_RATE_LIMITED,
  SLOT_RELEASED,
  SLOT_TOTAL_LIMIT_EXCEEDED,
  STORE_UNAVAILABLE,
} from "../../../core/codes.js";
import { freshNowMs } from "../clock.js";
import { nobodysNumbers } from "../http/counters.js";

/** The sum of the time in microseconds; then how many took up to each bound, and more. */
export const SLOTS_ASKED = "slots_asked";
export const SLOTS_LOST = "slots_lost";
export const SLOTS_RECLAIMED = "slots_reclaimed";
export const slotsRefused = (reason: string) => `slots_refused_${reason}`;

/** Those of the services, for `websocket_acquire_seconds`. */
export const ASKED_BOUNDS_SECONDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];

const OTHER = "other";

/** Why a connection can be refused: in the order in which the services list them. */
export const REFUSAL_REASONS = [
  SLOT_LIMIT_EXCEEDED,
  SLOT_TOTAL_LIMIT_EXCEEDED,
  SLOT_APP_LIMIT_EXCEEDED,
  SLOT_RATE_LIMITED,
  SLOT_RELEASED,
  SLOT_FORGOTTEN,
  SLOT_INVALID_ARGUMENT,
  STORE_UNAVAILABLE,
  OTHER,
];

function reasonOf(code: string): string {
  for (const reason of REFUSAL_REASONS) if (reason === code) return reason;
  return OTHER;
}

function countOne(name: string): void {
  const list = nobodysNumbers(name, 1);
  list[0] = list[0]! + 1;
}

/** `code` is why not, where it was refused. */
export function countSlotDecision(allowed: boolean, code: string, askedAtMs: number): void {
  const milliseconds = Math.max(freshNowMs() - askedAtMs, 0);
  const list = nobodysNumbers(SLOTS_ASKED, ASKED_BOUNDS_SECONDS.length + 2);
  list[0] = list[0]! + Math.floor(milliseconds * 1000 + 0.5);
  let bucket = 0;
  while (bucket < ASKED_BOUNDS_SECONDS.length && milliseconds / 1000 > ASKED_BOUNDS_SECONDS[bucket]!) bucket++;
  list[bucket + 1] = list[bucket + 1]! + 1;
  if (!allowed) countOne(slotsRefused(reasonOf(code)));
}

/** A lease that was gone when it should have been renewed. */
export function countLost(): void {
  countOne(SLOTS_LOST);
}

/** One that was taken again after that, or at last. */
export function countReclaimed(): void {
  countOne(SLOTS_RECLAIMED);
}
