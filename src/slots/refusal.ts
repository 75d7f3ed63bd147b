/** A refused connection as HTTP shows it: 429 for limits, 503 for a missing store, and a time to come back that differs. */
import {
  connectionRefusalError,
  connectionRefusalStatus,
  connectionRetryAfter,
  reachedConnectionLimit,
} from "../core/connection-refusal.js";
import type { RouteLimits } from "./limits.js";

export interface Refusal {
  status: number;
  headers: Record<string, string>;
  /** JSON. */
  body: string;
}

export interface RefusedSlot {
  code: string;
  app: string;
  limits: RouteLimits | undefined;
  retryAfterMs: number;
}

export function retryAfterSeconds(code: string, retryAfterMs: number, random: () => number): number {
  return connectionRetryAfter(code, retryAfterMs, random());
}

/** Names nothing that the client said, but for the app it was found to be. */
export function refusalOf({ code, app, limits, retryAfterMs }: RefusedSlot, random: () => number): Refusal {
  const seconds = retryAfterSeconds(code, retryAfterMs, random);
  const body = {
    ...{ error: connectionRefusalError(code), reason: code, app_id: app },
    ...{ retry_after: seconds, remaining: 0, limit: limits === undefined ? 0 : limitOf(code, limits) },
  };
  const headers = { "Retry-After": String(seconds) };
  return { status: connectionRefusalStatus(code), headers, body: `${JSON.stringify(body)}\n` };
}

/** The one that was reached. */
export function limitOf(code: string, limits: RouteLimits): number {
  return reachedConnectionLimit(code, limits);
}
