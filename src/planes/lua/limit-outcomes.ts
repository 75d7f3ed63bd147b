/** The outcomes of an exchange that has limits besides that of its app. */
import { OK } from "../../core/codes.js";
import type { LimitMatch, LimitRule } from "../../descriptors/limit-rules.js";
import { type Account, newOutcome, type Outcome } from "../../engine/account.js";
import { costAtLimit, decisiveOutcome } from "../../engine/together.js";
import type { PlaneExchange } from "./exchange.js";

/** The exchange has the estimated cost. `accountOf` returns the account of a value. */
export function startLimits(
  exchange: PlaneExchange,
  matches: LimitMatch[],
  contentLength: number,
  accountOf: (this: void, rule: LimitRule, id: string) => Account,
): Outcome[] {
  const outcomes: Outcome[] = [exchange];
  const rules: LimitRule[] = [];
  const denied = [false];
  exchange.anyDenied = false;
  for (const match of matches) {
    const { rule } = match;
    const account = accountOf(rule, match.id);
    const cost = costAtLimit(rule, exchange, contentLength);
    outcomes.push(newOutcome(account, exchange.method, cost));
    rules.push(rule);
    denied.push(match.denied);
    if (match.denied) exchange.anyDenied = true;
  }
  exchange.limited = true;
  exchange.outcomes = outcomes;
  exchange.rules = rules;
  exchange.denied = denied;
  return outcomes;
}

/** All outcomes are decided: the exchange gets the decision about the whole request. */
export function concludeLimits(exchange: PlaneExchange): void {
  const { outcomes } = exchange;
  const at = decisiveOutcome(outcomes);
  const { code, allowed, retryAfterMs, source } = outcomes[at]!;
  exchange.appCode = exchange.code;
  exchange.limitName = at > 0 && code !== OK ? exchange.rules[at - 1]!.name : "";
  let decidedBy = source;
  for (const outcome of outcomes) if (decidedBy === "local") decidedBy = outcome.source;
  exchange.code = code;
  exchange.allowed = allowed;
  exchange.retryAfterMs = allowed ? 0 : retryAfterMs;
  exchange.source = decidedBy;
}
