/** A decision as HTTP shows it: the headers on every response, and status and body of a refusal. */
import { INVALID_ARGUMENT, INVALID_IDENTITY, OK, STORE_UNAVAILABLE, UNKNOWN_APP } from "../core/codes.js";
import type { Decision } from "./decision.js";

export interface Refusal {
  status: number;
  /** JSON. */
  body: string;
}

/** The window of a policy: the time in which an empty bucket fills. */
function windowSeconds(decision: Decision): number {
  return Math.max(Math.ceil(decision.limit / Math.max(decision.rate, 1e-6)), 1);
}

/** Seconds until the bucket is full again, as far as this node knows. */
function resetSeconds(decision: Decision): number {
  const missing = Math.max(decision.limit - decision.remaining, 0);
  return Math.ceil(missing / Math.max(decision.rate, 1e-6));
}

export function retryAfterSeconds(decision: Decision): number {
  return decision.retryAfterMs <= 0 ? 0 : Math.max(Math.ceil(decision.retryAfterMs / 1000), 1);
}

/** A structured field: what would have become of the request if the limit were in force, and why. */
function dryRunResult(code: string): string {
  return code === OK ? "pass" : `would-refuse; reason=${code}`;
}

/**
 * The X-RateLimit family, and RateLimit with RateLimit-Policy as draft-ietf-httpapi-ratelimit-headers-10 has them: the
 * app is the policy, tokens are its units. App ids need no escaping in a structured field's string.
 *
 * While an app is on a dry run each of its responses has X-RateLimit-Dry-Run as well: `pass`, or
 * `would-refuse; reason=quota_exhausted` for a request that was let through all the same. The other headers say what
 * they would say otherwise, but for Retry-After: nobody has to come back for what was not refused.
 */
export function rateLimitHeaders(decision: Decision): Record<string, string> {
  const headers: Record<string, string> = {
    "X-RateLimit-Cost": String(decision.cost),
    "X-RateLimit-Limit": String(decision.limit),
    "X-RateLimit-Remaining": String(decision.remaining),
  };
  if (decision.app !== "") {
    headers["RateLimit-Policy"] = `"${decision.app}";q=${decision.limit};w=${windowSeconds(decision)}`;
    headers.RateLimit = `"${decision.app}";r=${decision.remaining};t=${resetSeconds(decision)}`;
  }
  if (decision.dryRun && decision.allowed) headers["X-RateLimit-Dry-Run"] = dryRunResult(decision.code);
  const retryAfter = decision.allowed ? 0 : retryAfterSeconds(decision);
  if (retryAfter > 0) headers["Retry-After"] = String(retryAfter);
  return headers;
}

function statusOf(code: string): { status: number; error: string } {
  if (code === STORE_UNAVAILABLE) return { status: 503, error: "service_unavailable" };
  if (code === INVALID_ARGUMENT || code === INVALID_IDENTITY) return { status: 400, error: "bad_request" };
  if (code === UNKNOWN_APP) return { status: 403, error: "forbidden" };
  return { status: 429, error: "rate_limit_exceeded" };
}

/** Names nothing that the client said, but for the app it was found to be. */
export function refusalOf(decision: Decision): Refusal {
  const { status, error } = statusOf(decision.code);
  const body = JSON.stringify({
    error,
    reason: decision.code,
    app_id: decision.app,
    retry_after: retryAfterSeconds(decision),
    remaining: decision.remaining,
    limit: decision.limit,
  });
  return { status, body };
}
