/** The limits of a request without its app, as Envoy's rate limit service decides about them. */
import { DENIED, INVALID_ARGUMENT, OK } from "../../core/codes.js";
import { newOutcome, type Outcome } from "../../engine/account.js";
import { endTogether, payTogether, spent } from "../../engine/payments.js";
import { ALL_TAKEN, decisiveOutcome, takeTogether } from "../../engine/together.js";
import type { LimitMatch, LimitRule, MatchedLimits, RequestAttributes } from "../../limit-rules/limit-rules.js";
import type { LimiterAccount } from "../accounts.js";
import { limitDecisions, unitOf } from "../decisions.js";
import type { LimitDecision } from "../limiter-contract.js";
import type { LimiterHost } from "../limiter-host.js";
import type { createSharedState } from "../shared-state.js";

/** The decision about the limits of a request. */
export interface LimitsOutcome {
  allowed: boolean;
  code: string;
  retryAfterMs: number;
  limits: LimitDecision[];
}

export interface LimitsAloneOptions {
  match(request: RequestAttributes): MatchedLimits;
  bucketOf(rule: LimitRule, id: string, client: string): LimiterAccount;
  host: LimiterHost;
  shared: ReturnType<typeof createSharedState>;
}

const invalidRequest = (): LimitsOutcome => ({ allowed: false, code: INVALID_ARGUMENT, retryAfterMs: 0, limits: [] });

function outcomeOf(outcomes: Outcome[], now: number): LimitsOutcome {
  const { code, allowed, retryAfterMs } = outcomes[decisiveOutcome(outcomes, now)]!;
  return {
    allowed,
    code,
    retryAfterMs: allowed ? 0 : retryAfterMs,
    limits: limitDecisions(outcomes, now),
  };
}

export function createLimitsAlone({ match, bucketOf, host, shared }: LimitsAloneOptions) {
  async function lookAt(
    { rule, id, denied }: LimitMatch,
    request: RequestAttributes,
  ): Promise<LimitDecision & { retryAfterMs: number }> {
    const account = bucketOf(rule, id, request.address);
    const { code, allowed, remaining, limit, rate, retryAfterMs } = await shared.look(account);
    const { dryRun } = account.limits;
    const own = denied ? { code: DENIED, allowed: dryRun } : { code, allowed };
    return { name: rule.name, cost: 0, ...own, dryRun, remaining, limit, rate, unit: unitOf(rule), retryAfterMs };
  }

  return {
    /** Takes `hits` tokens of each limit that matches, or none. */
    check(request: RequestAttributes, hits: number): LimitsOutcome | Promise<LimitsOutcome> {
      const { invalid, matches } = match(request);
      if (invalid !== "") return invalidRequest();
      if (matches.length === 0) return { allowed: true, code: OK, retryAfterMs: 0, limits: [] };
      const outcomes = matches.map(({ rule, id, denied }) => ({
        ...newOutcome(bucketOf(rule, id, request.address), request.method, hits),
        rule,
        denied,
      }));
      if (!matches.some(({ denied }) => denied) && takeTogether(outcomes) === ALL_TAKEN) {
        for (const { account, balance } of outcomes) spent(host, account, balance);
        return outcomeOf(outcomes, host.nowMs());
      }
      const waiting = payTogether(host, outcomes);
      if (waiting.length === 0) return outcomeOf(outcomes, host.nowMs());
      return host.awaitTokens(waiting).then(() => {
        endTogether(host, outcomes);
        return outcomeOf(outcomes, host.nowMs());
      });
    },

    /** The limits that match, by their state in the store. Nothing is taken. */
    async look(request: RequestAttributes): Promise<LimitsOutcome> {
      const { invalid, matches } = match(request);
      if (invalid !== "") return invalidRequest();
      const limits = await Promise.all(matches.map((match) => lookAt(match, request)));
      const refused = limits.find(({ allowed }) => !allowed);
      const { code = OK, retryAfterMs = 0 } = refused ?? {};
      return { allowed: refused === undefined, code, retryAfterMs, limits };
    },

    /** Returns tokens that any node has taken. False if the store does not reply. */
    async refund(request: RequestAttributes, hits: number): Promise<boolean> {
      const { matches } = match(request);
      const done = await Promise.all(
        matches.map(({ rule, id }) => shared.refund(bucketOf(rule, id, request.address), hits)),
      );
      return !done.includes(false);
    },
  };
}
