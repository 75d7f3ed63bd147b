/** The outcomes of an exchange that has limits besides that of its app. */
import { INVALID_ARGUMENT, OK } from "../../core/codes.js";
import { MISS } from "../../core/lease.js";
import { type Account, newOutcome, type Outcome } from "../../engine/account.js";
import { conclude, estimateCost, setPaid } from "../../engine/decide.js";
import type { NodeState } from "../../engine/node.js";
import { costAtLimit, decisiveOutcome } from "../../engine/together.js";
import type { LimitRule } from "../../limit-rules/limit-rules.js";
import { type AppCounts, count } from "./counts.js";
import type { PlaneExchange } from "./exchange.js";

type LimitedExchange = PlaneExchange & { account: { counts: AppCounts; node: NodeState } };

/** Results of `takeLimits`. The request is invalid: it is decided and counted. */
export const INVALID = 0;
/** All leases have paid. */
export const TAKEN = 1;
/** Nothing was taken, because a lease cannot pay or a value is denied. */
export const NOT_TAKEN = 2;

/**
 * Takes the tokens of an exchange with limits from all leases, or from none, and prepares its outcomes. `accountOf` returns the
 * account of a value. In one loop: LuaJIT leaves compiled code for each loop within a request.
 */
export function takeLimits(
  exchange: LimitedExchange,
  contentLength: number,
  accountOf: (this: void, rule: LimitRule, id: string) => Account,
): number {
  const { account, matched } = exchange;
  const { invalid, matches, count: limits } = matched!;
  if (!estimateCost(account.node, exchange, contentLength)) {
    count(exchange);
    return INVALID;
  }
  if (invalid !== "") {
    conclude(exchange, "local", INVALID_ARGUMENT, account.cell.get());
    exchange.limitName = invalid;
    count(exchange);
    return INVALID;
  }
  const outcomes = recordsOf(exchange, limits);
  let taken = 0;
  let isPaid = true;
  let settles = false;
  for (let i = 0; i < limits; i++) {
    const { rule, id, denied } = matches[i]!;
    const outcome = outcomes[i + 1]!;
    const payer = accountOf(rule, id);
    let cost = 1;
    if (rule.countsCost) {
      cost = costAtLimit(rule, exchange, contentLength);
      settles = true;
    }
    outcome.account = payer;
    outcome.cost = cost;
    outcome.rule = rule;
    outcome.denied = denied;
    if (isPaid) {
      const left = denied ? MISS : payer.cell.take(cost);
      if (left === MISS) isPaid = false;
      else {
        taken = taken + 1;
        setPaid(outcome, left);
      }
    }
  }
  exchange.limited = true;
  exchange.settlesLimits = settles;
  const left = isPaid ? account.cell.take(exchange.cost) : MISS;
  if (left === MISS) {
    for (let i = 1; i <= taken; i++) outcomes[i]!.account.cell.add(outcomes[i]!.cost);
    return NOT_TAKEN;
  }
  setPaid(exchange, left);
  return TAKEN;
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

/** All outcomes are decided: the exchange gets the decision about the whole request. The host counts its limits. */
export function endLimits(exchange: LimitedExchange, taken: boolean, now: number): void {
  exchange.appCode = exchange.code;
  if (!taken) concludeLimits(exchange, exchange.outcomes!, now);
  count(exchange);
}

function concludeLimits(exchange: PlaneExchange, outcomes: Outcome[], now: number): void {
  const decisive = outcomes[decisiveOutcome(outcomes, now)]!;
  const { code, allowed, retryAfterMs, source, rule } = decisive;
  exchange.limitName = code === OK || rule === undefined ? "" : rule.name;
  let decidedBy = source;
  for (const outcome of outcomes) if (decidedBy === "local") decidedBy = outcome.source;
  exchange.code = code;
  exchange.allowed = allowed;
  exchange.retryAfterMs = allowed ? 0 : retryAfterMs;
  exchange.source = decidedBy;
}
