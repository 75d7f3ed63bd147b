/** A refused connection as every plane tells it: 429 for limits, 503 for a missing store, and when to come back. */
import { SLOT_APP_LIMIT_EXCEEDED, SLOT_LIMIT_EXCEEDED, SLOT_RATE_LIMITED, SLOT_TOTAL_LIMIT_EXCEEDED } from "./codes.js";

/** Where nobody knows when there will be room. */
const WAIT_FOR_ROOM_MS = 5000;
const WAIT_FOR_STORE_MS = 3000;
/** Those whom the rate refused come back over so long a time, not all in the same second. */
const SPREAD_MS = 3000;

function isConnectionLimit(code: string): boolean {
  return code === SLOT_LIMIT_EXCEEDED || code === SLOT_TOTAL_LIMIT_EXCEEDED || code === SLOT_APP_LIMIT_EXCEEDED;
}

/** Whole seconds, as Retry-After has them; for the rate never before its time. `chance` is from 0 to 1, another each time. */
export function connectionRetryAfter(code: string, retryAfterMs: number, chance: number): number {
  if (retryAfterMs > 0) return Math.ceil((retryAfterMs + chance * SPREAD_MS) / 1000);
  const waitMs = isConnectionLimit(code) ? WAIT_FOR_ROOM_MS : WAIT_FOR_STORE_MS;
  return Math.max(Math.floor((waitMs * (0.5 + chance)) / 1000 + 0.5), 1);
}

export function connectionRefusalStatus(code: string): number {
  return isConnectionLimit(code) || code === SLOT_RATE_LIMITED ? 429 : 503;
}

export function connectionRefusalError(code: string): string {
  if (isConnectionLimit(code)) return "connection_limit_exceeded";
  return code === SLOT_RATE_LIMITED ? "rate_limit_exceeded" : "service_unavailable";
}

export interface ConnectionLimits {
  maxPerPod: number;
  maxTotal: number;
  maxPerApp: number;
  ratePerSecond: number;
}

/** The one that was reached. */
export function reachedConnectionLimit(code: string, limits: ConnectionLimits): number {
  if (code === SLOT_TOTAL_LIMIT_EXCEEDED) return limits.maxTotal;
  if (code === SLOT_APP_LIMIT_EXCEEDED) return limits.maxPerApp;
  if (code === SLOT_RATE_LIMITED) return limits.ratePerSecond;
  return limits.maxPerPod;
}
