/** Checks requests that have limits besides that of their app: tokens are taken from all limits, or from none. */
import { createHash } from "node:crypto";
import type { AppLimits } from "../../core/app-limits.js";
import { INVALID_ARGUMENT, OK } from "../../core/codes.js";
import { MISS } from "../../core/lease.js";
import { newOutcome, type Outcome } from "../../engine/account.js";
import { conclude, setPaid } from "../../engine/decide.js";
import { settleLimit } from "../../engine/settle.js";
import { costAtLimit, decisiveOutcome } from "../../engine/together.js";
import {
  findLimits,
  isOverflow,
  type LimitMatch,
  type LimitRule,
  type LimitRules,
  matchLimits,
  NO_LIMITS,
  newMatched,
  overflowOf,
  type RecentMatches,
  type RequestAttributes,
} from "../../limit-rules/limit-rules.js";
import type { LimiterAccount } from "../accounts.js";
import { decisionFrom, limitDecision, paidLimit } from "../decisions.js";
import type { Decision, LimitDecision } from "../limiter-contract.js";
import type { createSharedState } from "../shared-state.js";
import { AGAIN, createJointPayments, type JointOutcome, type JointPaymentsOptions } from "./joint-payments.js";
import { createLimitsAlone } from "./limits-alone.js";
import { createValueTable, type LimitAccounts } from "./value-table.js";

export interface LimitChecksOptions extends JointPaymentsOptions {
  rules: LimitRules;
  maxValues: number;
  limits: LimitAccounts;
  /** The account of a bucket that is in use or leaving. */
  owner(id: string): LimiterAccount | undefined;
  shared: ReturnType<typeof createSharedState>;
}

export function createLimitChecks(options: LimitChecksOptions) {
  const { clock, syncerOf } = options;
  let { maxValues } = options;
  let rules = withMemory(options.rules);
  let byName = namesOf(rules);
  const table = createValueTable<LimitRule>({
    limits: options.limits,
    clock,
    maxValues: () => maxValues,
    idOf: (name) => name,
    limitsOf,
  });
  const payments = createJointPayments(options);
  /** Of the current request; reused. */
  const found = newMatched();
  /** The accounts of its limits, what it costs there, and what they have left. */
  const payers: LimiterAccount[] = [];
  const costs: number[] = [];
  const balances: number[] = [];

  /** Recent, without reading the clock. */
  const timeOf = (account: LimiterAccount) => syncerOf(account).node.clock;

  /** `request`: undefined if it is not known. */
  function bucketOf(rule: LimitRule, id: string, request?: RequestAttributes): LimiterAccount {
    const own = table.find(id, rule, !rule.hasFreeValues || isOverflow(id));
    return (own ?? table.single(overflowOf(rule.name, request?.address ?? "", sha1), rule)).account;
  }

  function accountOf(match: LimitMatch, request: RequestAttributes): LimiterAccount {
    const known = match.account as LimiterAccount | undefined;
    if (known === undefined || known.leaving) return findAccount(match, request);
    known.isUsed = true;
    return known;
  }

  function findAccount(match: LimitMatch, request: RequestAttributes): LimiterAccount {
    const account = bucketOf(match.rule, match.id, request);
    // Not the one that values share: there may be room later.
    if (account.limits.id === match.id) match.account = account;
    return account;
  }

  /** `app` has its estimated cost, and may be reused. A promise if the request has to wait for the store. */
  function check(
    app: JointOutcome,
    contentLength: number,
    request: RequestAttributes,
  ): Decision | Promise<Decision | typeof AGAIN> {
    findLimits(found, rules, request, sha1);
    if (found.invalid !== "") return refuseInvalid(app, found.invalid);
    if (takeAllLocally(app, contentLength, request)) return paidDecision(app);
    return refuseOrWait(outcomesOf(app));
  }

  /** Takes the tokens of the current request from all leases, or from none. */
  function takeAllLocally(app: JointOutcome, contentLength: number, request: RequestAttributes): boolean {
    const { matches, count } = found;
    let taken = 0;
    let isPaid = true;
    for (let i = 0; i < count; i++) {
      const match = matches[i]!;
      const account = accountOf(match, request);
      const cost = costAtLimit(match.rule, app, contentLength);
      payers[i] = account;
      costs[i] = cost;
      if (!isPaid) continue;
      const left = match.denied ? MISS : account.cell.take(cost);
      balances[i] = left;
      if (left === MISS) isPaid = false;
      else taken++;
    }
    const left = isPaid ? app.account.cell.take(app.cost) : MISS;
    if (left === MISS) {
      for (let i = 0; i < taken; i++) payers[i]!.cell.add(costs[i]!);
      return false;
    }
    setPaid(app, left);
    return true;
  }

  function paidDecision(app: JointOutcome): Decision {
    const { matches, count } = found;
    const now = timeOf(app.account);
    const decision = decisionFrom(app, now);
    payments.spent(app.account, app.balance);
    if (count === 0) return decision;
    const limits: LimitDecision[] = [];
    for (let i = 0; i < count; i++) {
      const [account, balance] = [payers[i]!, balances[i]!];
      payments.spent(account, balance);
      limits.push(paidLimit(matches[i]!.rule, { account, cost: costs[i]!, balance }, now));
    }
    decision.appCode = OK;
    decision.limits = limits;
    return decision;
  }

  /** Records of the current request that are not reused. */
  function outcomesOf(app: JointOutcome): JointOutcome[] {
    const outcomes = [{ ...app }];
    for (let i = 0; i < found.count; i++) {
      const { rule, denied } = found.matches[i]!;
      outcomes.push({ ...newOutcome(payers[i]!, app.method, costs[i]!), rule, denied } as JointOutcome);
    }
    return outcomes;
  }

  /** Some lease cannot pay, or a value is denied. */
  function refuseOrWait(outcomes: JointOutcome[]): Decision | Promise<Decision | typeof AGAIN> {
    const waiting = payments.takeOrRefuse(outcomes);
    if (waiting === undefined) return decisionOf(outcomes);
    return waiting.then((result) => (result === AGAIN ? AGAIN : decisionOf(outcomes)));
  }

  function refuseInvalid(app: Outcome, limitName: string): Decision {
    conclude(app, "local", INVALID_ARGUMENT, app.account.cell.get());
    return { ...decisionFrom(app, clock.now()), limitName };
  }

  function decisionOf(outcomes: JointOutcome[]): Decision {
    const app = outcomes[0]!;
    const others = outcomes.slice(1);
    const now = clock.now();
    const decision = decisionFrom(app, now);
    if (others.length === 0) return decision;
    const { code, allowed, retryAfterMs, source, rule } = outcomes[decisiveOutcome(outcomes, now)]!;
    decision.source = source === "local" ? (others.findLast((one) => one.source !== "local") ?? app).source : source;
    decision.allowed = allowed;
    decision.code = code;
    decision.retryAfterMs = allowed ? 0 : retryAfterMs;
    decision.appCode = app.code;
    if (code !== OK) decision.limitName = rule?.name;
    decision.limits = others.map((one) => limitDecision(one, now));
    return decision;
  }

  return {
    hasRules: () => rules.rules.length > 0,

    check,
    alone: createLimitsAlone({
      match: (request) => matchLimits(rules, request, sha1),
      bucketOf,
      now: clock.now,
      payments,
      shared: options.shared,
    }),
    /** An admitted exchange has ended: limits that count by cost are corrected to its actual cost. */
    settle({ limits = [] }: Decision, actualCost: number): void {
      for (const { name, code, cost, bucket } of limits) {
        if (bucket === undefined || code !== OK) continue;
        const rule = byName.get(name);
        if (rule?.countsCost !== true) continue;
        // A bucket that was released meanwhile comes back until the correction is reported.
        const account = options.owner(bucket) ?? bucketOf(rule, bucket);
        settleLimit(account, cost, actualCost);
        syncerOf(account).spent(account);
      }
    },

    reconfigure(next: LimitRules | undefined, nextMaxValues: number): void {
      rules = withMemory(next ?? NO_LIMITS);
      byName = namesOf(rules);
      maxValues = nextMaxValues;
    },

    stats: table.stats,
    close: table.close,
  };
}

/** Copies of the rules: what they remember belongs to one limiter, with its accounts. */
function withMemory({ rules, ...others }: LimitRules): LimitRules {
  return { ...others, rules: rules.map((rule) => ({ ...rule, recent: recentMatches() })) };
}

/** Of each limit. */
const MAX_RECENT = 10_000;

function recentMatches(): RecentMatches {
  const matches = new Map<string, LimitMatch>();
  return {
    get: (value) => matches.get(value),
    set(value, match) {
      if (matches.size >= MAX_RECENT) matches.clear();
      matches.set(value, match);
    },
  };
}

const namesOf = ({ rules }: LimitRules) => new Map(rules.map((rule) => [rule.name, rule]));

const limitsOf = (id: string, { limits }: LimitRule): AppLimits => ({ ...limits, id });

export const sha1 = (text: string) => createHash("sha1").update(text, "latin1").digest("hex");
