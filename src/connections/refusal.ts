/** A refused connection as HTTP shows it: 429 for limits, 503 for a missing store, and a time to come back that differs. */
import {
  SLOT_APP_LIMIT_EXCEEDED,
  SLOT_LIMIT_EXCEEDED,
  SLOT_RATE_LIMITED,
  SLOT_TOTAL_LIMIT_EXCEEDED,
} from "../core/codes.js";
import type { RouteLimits } from "./limits.js";

export interface Refusal {
  status: number;
  headers: Record<string, string>;
  /** JSON. */
  body: string;
}

/** Where nobody knows when there will be room. */
const WAIT_FOR_ROOM_MS = 5_000;
const WAIT_FOR_STORE_MS = 3_000;
/** Those whom the rate refused come back over so long a time, not all in the same second. */
const SPREAD_MS = 3_000;

/** Whole seconds, as Retry-After has them; for the rate never before its time. */
export function retryAfterSeconds(code: string, retryAfterMs: number, random: () => number): number {
  if (retryAfterMs > 0) return Math.ceil((retryAfterMs + random() * SPREAD_MS) / 1000);
  const waitMs = isLimit(code) ? WAIT_FOR_ROOM_MS : WAIT_FOR_STORE_MS;
  return Math.max(Math.round((waitMs * (0.5 + random())) / 1000), 1);
}

export interface RefusedSlot {
  code: string;
  app: string;
  limits: RouteLimits | undefined;
  retryAfterMs: number;
}

/** Names nothing that the client said, but for the app it was found to be. */
export function refusalOf({ code, app, limits, retryAfterMs }: RefusedSlot, random: () => number): Refusal {
  const seconds = retryAfterSeconds(code, retryAfterMs, random);
  const { status, error } = statusOf(code);
  const body = {
    ...{ error, reason: code, app_id: app },
    ...{ retry_after: seconds, remaining: 0, limit: limits === undefined ? 0 : limitOf(code, limits) },
  };
  return { status, headers: { "Retry-After": String(seconds) }, body: `${JSON.stringify(body)}\n` };
}

function isLimit(code: string): boolean {
  return code === SLOT_LIMIT_EXCEEDED || code === SLOT_TOTAL_LIMIT_EXCEEDED || code === SLOT_APP_LIMIT_EXCEEDED;
}

function statusOf(code: string): { status: number; error: string } {
  if (isLimit(code)) return { status: 429, error: "connection_limit_exceeded" };
  if (code === SLOT_RATE_LIMITED) return { status: 429, error: "rate_limit_exceeded" };
  return { status: 503, error: "service_unavailable" };
}

/** The one that was reached. */
export function limitOf(code: string, limits: RouteLimits): number {
  if (code === SLOT_TOTAL_LIMIT_EXCEEDED) return limits.maxTotal;
  if (code === SLOT_APP_LIMIT_EXCEEDED) return limits.maxPerApp;
  if (code === SLOT_RATE_LIMITED) return limits.ratePerSecond;
  return limits.maxPerPod;
}
