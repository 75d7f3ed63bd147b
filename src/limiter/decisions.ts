/** Decisions as callers get them. */
import { unidentified } from "../core/refusals.js";
import { REQUESTS, TOKENS } from "../core/response-headers.js";
import type { Outcome } from "../engine/account.js";
import type { LimitedRequest } from "../engine/limited-request.js";
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

/** The decision of a request that may have limits besides that of its app. */
export function requestDecision(request: LimitedRequest, now: number): Decision {
  const decision = decisionFrom(request, now);
  const { limited, limitName, appCode, outcomes } = request;
  if (limitName !== "") decision.limitName = limitName;
  if (limited) {
    decision.appCode = appCode;
    decision.limits = limitDecisions(outcomes, now);
  }
  return decision;
}

/** The parts of the limits. An outcome without a rule is that of the app. */
export function limitDecisions(outcomes: readonly Outcome[], now: number): LimitDecision[] {
  const decisions: LimitDecision[] = [];
  for (const outcome of outcomes) {
    const { account, rule, cost, code, allowed, balance } = outcome;
    if (rule === undefined) continue;
    decisions.push({
      name: rule.name,
      cost,
      code,
      allowed,
      dryRun: rule.limits.dryRun,
      remaining: remainingTokens(account, balance, now),
      limit: account.sync.limit,
      rate: account.sync.rate,
      unit: unitOf(rule),
      bucket: rule.countsCost ? account.limits.id : undefined,
      balance,
    });
  }
  return decisions;
}

export const unitOf = ({ countsCost }: LimitRule): string => (countsCost ? TOKENS : REQUESTS);

/** For a request that belongs to no app. */
export function unknownApp(code: string, method: string): Decision {
  return { ...unidentified(code), method, balance: 0, rate: 0, source: "local" };
}
