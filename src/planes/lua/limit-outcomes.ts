/** The outcomes of an exchange that has limits besides that of its app. */
import { INVALID_ARGUMENT, OK } from "../../core/codes.js";
import type { LimitRule, MatchedLimits } from "../../descriptors/limit-rules.js";
import { type Account, newOutcome, type Outcome } from "../../engine/account.js";
import { conclude, estimateCost } from "../../engine/decide.js";
import type { NodeState } from "../../engine/node.js";
import { ALL_TAKEN, costAtLimit, decisiveOutcome, startAtLimit, takeTogether } from "../../engine/together.js";
import { type AppCounts, count, countLimit } from "./counts.js";
import type { PlaneExchange } from "./exchange.js";

type LimitedExchange = PlaneExchange & { account: { counts: AppCounts; node: NodeState } };

/**
 * Prepares the outcomes of an exchange with limits. `accountOf` returns the account of a value. Undefined if the request is
 * invalid: then it is decided and counted.
 */
export function startLimits(
  exchange: LimitedExchange,
  { invalid, matches, count: limits }: MatchedLimits,
  contentLength: number,
  accountOf: (this: void, rule: LimitRule, id: string) => Account,
): Outcome[] | undefined {
  const { account } = exchange;
  if (!estimateCost(account.node, exchange, contentLength)) {
    count(exchange);
    return undefined;
  }
  if (invalid !== "") {
    conclude(exchange, "local", INVALID_ARGUMENT, account.cell.get());
    exchange.limitName = invalid;
    count(exchange);
    return undefined;
  }
  const outcomes = recordsOf(exchange, limits);
  for (let i = 0; i < limits; i++) {
    const match = matches[i]!;
    const { rule } = match;
    const outcome = outcomes[i + 1]!;
    startAtLimit(outcome, exchange, match, accountOf(rule, match.id));
    if (rule.countsCost) outcome.cost = costAtLimit(rule, exchange, contentLength);
  }
  exchange.limited = true;
  return outcomes;
}

/** Those of the last exchange that used the same table, if it had as many limits. */
function recordsOf(exchange: PlaneExchange, limits: number): Outcome[] {
  const { outcomes } = exchange;
  if (outcomes !== undefined && outcomes.length === limits + 1) return outcomes;
  const created: Outcome[] = [exchange];
  for (let i = 0; i < limits; i++) created.push(newOutcome(exchange.account, "", 0));
  exchange.outcomes = created;
  return created;
}

/** Takes the tokens of all outcomes from their leases, or of none. */
export function takeAll(outcomes: Outcome[]): boolean {
  for (const { denied } of outcomes) if (denied === true) return false;
  return takeTogether(outcomes) === ALL_TAKEN;
}

/** All outcomes are decided: the exchange gets the decision about the whole request, and is counted. */
export function endLimits(exchange: LimitedExchange, outcomes: Outcome[], taken: boolean): void {
  exchange.appCode = exchange.code;
  if (!taken) concludeLimits(exchange, outcomes);
  count(exchange);
  for (let i = 1; i < outcomes.length; i++) countLimit(outcomes[i]!);
}

function concludeLimits(exchange: PlaneExchange, outcomes: Outcome[]): void {
  const decisive = outcomes[decisiveOutcome(outcomes)]!;
  const { code, allowed, retryAfterMs, source, rule } = decisive;
  exchange.limitName = code === OK || rule === undefined ? "" : rule.name;
  let decidedBy = source;
  for (const outcome of outcomes) if (decidedBy === "local") decidedBy = outcome.source;
  exchange.code = code;
  exchange.allowed = allowed;
  exchange.retryAfterMs = allowed ? 0 : retryAfterMs;
  exchange.source = decidedBy;
}
