/** A request that has limits besides that of its app: its tokens are taken from all leases, or from none. */
import { INVALID_ARGUMENT, OK } from "../core/codes.js";
import type { CostProfile } from "../core/cost.js";
import { MISS } from "../core/lease.js";
import { type MatchedLimits, newMatched } from "../limit-rules/limit-rules.js";
import { type Account, newOutcome, type Outcome } from "./account.js";
import { conclude, estimateCost, setPaid, startDecision } from "./decide.js";
import type { Host } from "./host.js";
import { costAtLimit, decisiveOutcome } from "./together.js";

/** The outcome is that of the app, until `endLimits`. A host may reuse the record. */
export interface LimitedRequest<A extends Account = Account> extends Outcome<A> {
  /** Limits apply besides that of the app. Only then the following fields are valid, except for `matched` and `limitName`. */
  limited: boolean;
  /** The limits that apply. */
  matched: MatchedLimits;
  /** First the request, then an outcome per limit. */
  outcomes: Outcome<A>[];
  /** Some of the limits count by cost. */
  settlesLimits: boolean;
  /** The limit that refused the request, or would have in a dry run; empty if it was none. */
  limitName: string;
  /** The code of the app's own outcome. */
  appCode: string;
}

/** The fields of a record besides those that each decision sets. */
export function newLimitedFields<A extends Account>(): Omit<LimitedRequest<A>, keyof Outcome> {
  return { limited: false, matched: newMatched(), outcomes: [], settlesLimits: false, limitName: "", appCode: OK };
}

/** As `startDecision`. */
export function startRequest<A extends Account>(
  request: LimitedRequest<A>,
  account: A,
  method: string,
  profile: CostProfile | undefined,
): void {
  startDecision(request, account, method, profile);
  request.limitName = "";
  request.limited = false;
}

/** Results of `takeLimits`. The request is invalid: it is decided. */
export const INVALID_REQUEST = 0;
/** All leases have paid. */
export const TAKEN = 1;
/** Nothing was taken, because a lease cannot pay or a value is denied: `payTogether` decides. */
export const NOT_TAKEN = 2;

/**
 * Takes the tokens of a prepared request, whose limits were found, from all leases or from none, and prepares its outcomes.
 * In one loop: LuaJIT leaves compiled code for each loop within a request.
 */
export function takeLimits<A extends Account>(
  host: Host<A>,
  request: LimitedRequest<A>,
  contentLength: number,
): number {
  const { account, matched } = request;
  const { invalid, matches, count } = matched;
  if (!estimateCost(account.node, request, contentLength)) return INVALID_REQUEST;
  if (invalid !== "") {
    conclude(request, "local", INVALID_ARGUMENT, account.cell.get());
    request.limitName = invalid;
    return INVALID_REQUEST;
  }
  const outcomes = outcomesOf(request, count);
  let taken = 0;
  let isPaid = true;
  let settles = false;
  for (let i = 0; i < count; i++) {
    const match = matches[i]!;
    const { rule, denied } = match;
    const outcome = outcomes[i + 1]!;
    const payer = host.valueAccount(match);
    let cost = 1;
    if (rule.countsCost) {
      cost = costAtLimit(rule, request, contentLength);
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
  request.limited = true;
  request.settlesLimits = settles;
  const left = isPaid ? account.cell.take(request.cost) : MISS;
  if (left === MISS) {
    for (let i = 1; i <= taken; i++) outcomes[i]!.account.cell.add(outcomes[i]!.cost);
    return NOT_TAKEN;
  }
  setPaid(request, left);
  return TAKEN;
}

/** Those of the last request that used the same record, if it had as many limits. */
function outcomesOf<A extends Account>(request: LimitedRequest<A>, limits: number): Outcome<A>[] {
  const { outcomes, account } = request;
  if (outcomes.length === limits + 1) return outcomes;
  const created: Outcome<A>[] = [request];
  for (let i = 0; i < limits; i++) created.push(newOutcome(account, "", 0));
  request.outcomes = created;
  return created;
}

/** All outcomes are decided: the request gets the decision about all of it. */
export function endLimits(request: LimitedRequest, taken: boolean, now: number): void {
  request.appCode = request.code;
  if (taken) return;
  const { outcomes } = request;
  const { code, allowed, retryAfterMs, source, rule } = outcomes[decisiveOutcome(outcomes, now)]!;
  request.limitName = code === OK || rule === undefined ? "" : rule.name;
  let decidedBy = source;
  for (const outcome of outcomes) if (decidedBy === "local") decidedBy = outcome.source;
  request.code = code;
  request.allowed = allowed;
  request.retryAfterMs = allowed ? 0 : retryAfterMs;
  request.source = decidedBy;
}
