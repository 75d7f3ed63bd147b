/** Results of the library: decisions, told apart by `allowed`, with what clients are told about them. */
import { OK } from "../../core/codes.js";
import { limitedRefusal, type Refusal } from "../../core/refusals.js";
import {
  ALL_HEADERS,
  type HeaderOptions,
  type LimitedDecision,
  retryAfterSeconds,
} from "../../core/response-headers.js";
import { decisionHeaders } from "../decision-headers.js";
import type { Decision, LimitDecision } from "../limiter-contract.js";
import type { LimitsOutcome } from "../limits/limits-alone.js";

export interface Allowed extends Decision {
  allowed: true;
}

export interface Refused extends Decision {
  allowed: false;
  /** Whole seconds, as in Retry-After; 0 if a retry cannot succeed. */
  retryAfter: number;
}

/** `limit` and `remaining` are those of the app; of the limit that decides, if the request has none. */
export type Result = Allowed | Refused;

function isAllowed(decision: Decision): decision is Allowed {
  return decision.allowed;
}

/** The same object, because copying one of so many fields costs more than the decision. */
export function resultOf(decision: Decision): Result {
  if (isAllowed(decision)) return decision;
  const retryAfter = retryAfterSeconds(decision.retryAfterMs);
  return Object.assign(decision, { allowed: false as const, retryAfter });
}

/** The decision about limits without an app. `source` says only whether it waited. */
export function decisionOf(
  { allowed, code, retryAfterMs, limits }: LimitsOutcome,
  method: string,
  waited: boolean,
): Decision {
  const { cost, remaining, limit, rate, balance = 0, name } = decisive(limits, code) ?? NO_LIMIT;
  return {
    allowed,
    code,
    dryRun: limits.some(({ dryRun }) => dryRun),
    app: "",
    method,
    cost,
    balance,
    remaining,
    limit,
    rate,
    retryAfterMs,
    source: waited ? "remote" : "local",
    limitName: code === OK ? undefined : name,
    limits,
  };
}

const NO_LIMIT = { cost: 0, remaining: Infinity, limit: Infinity, rate: Infinity, balance: 0, name: undefined };

/** The limit that refuses, or the one with the fewest tokens left. */
function decisive(limits: readonly LimitDecision[], code: string): LimitDecision | undefined {
  const refusing = code === OK ? undefined : limits.find((one) => one.code === code);
  if (refusing !== undefined) return refusing;
  let least = limits[0];
  for (const one of limits) if (least !== undefined && one.remaining < least.remaining) least = one;
  return least;
}

/** Without an app, the headers show the limit that decides in its place. */
function shown(decision: Decision): LimitedDecision {
  const { app, limits = [], code } = decision;
  const first = app === "" ? decisive(limits, code) : undefined;
  if (first === undefined) return decision;
  return { ...decision, app: first.name, unit: first.unit, limits: limits.filter((one) => one !== first) };
}

export function headersWith(options: HeaderOptions): (decision: Decision) => Record<string, string> {
  const headersOf = decisionHeaders(options);
  return (decision) => (decision.limit === Infinity ? {} : headersOf(shown(decision)));
}

/** The response headers of a result: X-RateLimit-*, RateLimit and RateLimit-Policy, and Retry-After of a refusal. */
export function rateLimitHeaders(result: Decision, options: HeaderOptions = ALL_HEADERS): Record<string, string> {
  return headersBy[`${options.xRateLimit} ${options.ietf}`](result);
}

const headersBy = {
  "true true": headersWith(ALL_HEADERS),
  "true false": headersWith({ xRateLimit: true, ietf: false }),
  "false true": headersWith({ xRateLimit: false, ietf: true }),
  "false false": headersWith({ xRateLimit: false, ietf: false }),
};

/** Status and JSON body of a refusal. If the request has several limits, `remaining` and `limit` are those of the one that refused. */
export const refusalOf = (result: Decision): Refusal => limitedRefusal(result);
