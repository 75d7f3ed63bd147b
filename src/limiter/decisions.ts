/** Decisions as callers get them. */
import { OK } from "../core/codes.js";
import { unidentified } from "../core/refusals.js";
import { REQUESTS, TOKENS } from "../core/response-headers.js";
import type { Outcome } from "../engine/account.js";
import { remainingTokens } from "../engine/remaining.js";
import type { LimitRule } from "../limit-rules/limit-rules.js";
import type { Decision, LimitDecision } from "./limiter-contract.js";

/** The decision of an app without other limits. */
export function decisionFrom(outcome: Outcome, now: number): Decision {
  const { account, method, profile, cost, code, allowed, source, balance, retryAfterMs } = outcome;
  const { id, label = id, dryRun } = account.limits;
  return {
    allowed,
    code,
    dryRun,
    app: label,
    method,
    cost,
    balance,
    remaining: remainingTokens(account, balance, now),
    limit: account.sync.limit,
    rate: account.sync.rate,
    retryAfterMs,
    source,
    limitName: undefined,
    limits: undefined,
    profile: profile.route === undefined ? undefined : profile,
    appCode: undefined,
  };
}

/** The part of one of the other limits. */
export function limitDecision({ account, rule, cost, code, allowed, balance }: Outcome, now: number): LimitDecision {
  return { ...paidLimit(rule!, { account, cost, balance }, now), code, allowed, balance };
}

/** As `limitDecision`, for a cost that was paid. Does not read the limits of the account, which are those of the rule. */
export function paidLimit(
  rule: LimitRule,
  { account, cost, balance }: Pick<Outcome, "account" | "cost" | "balance">,
  now: number,
): LimitDecision {
  const { name, countsCost, limits } = rule;
  return {
    name,
    cost,
    code: OK,
    allowed: true,
    dryRun: limits.dryRun,
    remaining: remainingTokens(account, balance, now),
    limit: account.sync.limit,
    rate: account.sync.rate,
    unit: countsCost ? TOKENS : REQUESTS,
    bucket: countsCost ? account.limits.id : undefined,
  };
}

/** For a request that belongs to no app. */
export function unknownApp(code: string, method: string): Decision {
  return { ...unidentified(code), method, balance: 0, rate: 0, source: "local" };
}
