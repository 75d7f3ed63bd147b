/** Decisions as callers get them. */
import { unidentified } from "../core/refusals.js";
import type { Outcome } from "../engine/account.js";
import { remainingTokens } from "../engine/decide.js";
import type { Decision, LimitDecision } from "./limiter-contract.js";

/** The decision of an app without other limits. */
export function decisionFrom(outcome: Outcome): Decision {
  const { account, method, profile, cost, code, allowed, source, balance, retryAfterMs } = outcome;
  const { id, label = id, guaranteed, dryRun } = account.limits;
  return {
    allowed,
    code,
    dryRun,
    app: label,
    method,
    cost,
    balance,
    remaining: remainingTokens(account, balance),
    limit: account.sync.limit,
    rate: guaranteed,
    retryAfterMs,
    source,
    limitName: undefined,
    limits: undefined,
    profile: profile.route === undefined ? undefined : profile,
    appCode: undefined,
  };
}

/** The part of one of the other limits. */
export function limitDecision({ account, rule, cost, code, allowed, balance }: Outcome): LimitDecision {
  const { id, guaranteed, dryRun } = account.limits;
  const { name, countsCost } = rule!;
  return {
    name,
    cost,
    code,
    allowed,
    dryRun,
    remaining: remainingTokens(account, balance),
    limit: account.sync.limit,
    rate: guaranteed,
    bucket: countsCost ? id : undefined,
  };
}

/** For a request that belongs to no app. */
export function unknownApp(code: string, method: string): Decision {
  return { ...unidentified(code), method, balance: 0, rate: 0, source: "local" };
}
