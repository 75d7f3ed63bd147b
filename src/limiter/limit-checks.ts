/** Checks requests that have limits besides that of their app: tokens are taken from all limits, or from none. */
import { createHash } from "node:crypto";
import { INVALID_ARGUMENT, OK } from "../core/codes.js";
import type { AppLimits } from "../core/limits.js";
import {
  findLimits,
  type LimitRule,
  type LimitRules,
  matchLimits,
  NO_LIMITS,
  newMatched,
  overflowId,
  type RequestAttributes,
} from "../descriptors/limit-rules.js";
import { newOutcome, type Outcome, PENDING } from "../engine/account.js";
import { conclude, refuseWithoutStore, remainingTokens } from "../engine/decide.js";
import { settleLimit } from "../engine/settle.js";
import { ALL_TAKEN, costAtLimit, decisiveOutcome, startAtLimit, takeTogether } from "../engine/together.js";
import type { LimiterAccount } from "./accounts.js";
import { decisionFrom, limitDecision } from "./decisions.js";
import { AGAIN, createJointPayments, type JointOutcome, type JointPaymentsOptions } from "./joint-payments.js";
import type { Decision, LimitDecision } from "./limiter-contract.js";
import { createLimitsAlone } from "./limits-alone.js";
import type { createSharedState } from "./shared-state.js";
import { createValueTable, type LimitAccounts } from "./value-table.js";

export interface LimitChecksOptions extends JointPaymentsOptions {
  rules: LimitRules;
  maxValues: number;
  /** The time of the last tick. */
  recentTime(): number;
  limits: LimitAccounts;
  /** The account of a bucket that is in use or leaving. */
  owner(id: string): LimiterAccount | undefined;
  shared: ReturnType<typeof createSharedState>;
}

/** What a request of a data plane costs at the bucket of a value. */
export interface NamedCost {
  rule: LimitRule;
  id: string;
  cost: number;
}

/** The decision about one account of such a request. */
export type AccountDecision = Pick<Decision, "app" | "allowed" | "code" | "remaining" | "limit" | "retryAfterMs">;

function accountDecision({ account, allowed, code, balance, retryAfterMs }: Outcome): AccountDecision {
  const { id: app } = account.limits;
  return { app, allowed, code, remaining: remainingTokens(account, balance), limit: account.sync.limit, retryAfterMs };
}

export function createLimitChecks(options: LimitChecksOptions) {
  const { clock, syncerOf } = options;
  let { rules, maxValues } = options;
  let byName = namesOf(rules);
  const table = createValueTable<LimitRule>({
    limits: options.limits,
    clock,
    recentTime: options.recentTime,
    maxValues: () => maxValues,
    idOf: (name) => name,
    limitsOf,
  });
  const payments = createJointPayments(options);
  /** Reused for every request. */
  const found = newMatched();
  /** Records of requests that do not wait, by the number of their limits: first that of the app. */
  const records: JointOutcome[][] = [];

  function bucketOf(rule: LimitRule, id: string): LimiterAccount {
    return (table.find(id, rule, !rule.hasFreeValues) ?? table.single(overflowId(rule.name), rule)).account;
  }

  function newRecords(app: JointOutcome, limits: number): JointOutcome[] {
    const created = [app];
    while (created.length <= limits) created.push(newOutcome(app.account, "", 0) as JointOutcome);
    records[limits] = created;
    return created;
  }

  /** `app` has its estimated cost, and may be reused. A promise if the request has to wait for the store. */
  function check(
    app: JointOutcome,
    contentLength: number,
    request: RequestAttributes,
  ): Decision | Promise<Decision | typeof AGAIN> {
    findLimits(found, rules, request, sha1);
    if (found.invalid !== "") return refuseInvalid(app, found.invalid);
    const { matches, count } = found;
    const outcomes = records[count] ?? newRecords(app, count);
    outcomes[0] = app;
    let anyDenied = false;
    for (let i = 0; i < count; i++) {
      const match = matches[i]!;
      const { rule, id, denied } = match;
      const outcome = outcomes[i + 1]!;
      startAtLimit(outcome, app, match, bucketOf(rule, id));
      if (rule.countsCost) outcome.cost = costAtLimit(rule, app, contentLength);
      if (denied) anyDenied = true;
    }
    if (anyDenied || takeTogether(outcomes) !== ALL_TAKEN) return refuseOrWait(outcomes.map((one) => ({ ...one })));
    return paidDecision(outcomes);
  }

  function paidDecision(outcomes: JointOutcome[]): Decision {
    const app = outcomes[0]!;
    const decision = decisionFrom(app);
    payments.spent(app.account, app.balance);
    if (outcomes.length === 1) return decision;
    const limits: LimitDecision[] = [];
    for (let i = 1; i < outcomes.length; i++) {
      const outcome = outcomes[i]!;
      payments.spent(outcome.account, outcome.balance);
      limits.push(limitDecision(outcome));
    }
    decision.appCode = OK;
    decision.limits = limits;
    return decision;
  }

  /** Some lease cannot pay, or a value is denied. */
  function refuseOrWait(outcomes: JointOutcome[]): Decision | Promise<Decision | typeof AGAIN> {
    const waiting = payments.takeOrRefuse(outcomes);
    if (waiting === undefined) return decisionOf(outcomes);
    return waiting.then((result) => (result === AGAIN ? AGAIN : decisionOf(outcomes)));
  }

  /** Takes tokens of accounts that a data plane names, of all or of none. `app`: undefined if only limits pay. */
  function takeAll(app: JointOutcome | undefined, limits: NamedCost[]): AccountDecision[] | Promise<AccountDecision[]> {
    const outcomes = app === undefined ? [] : [app];
    for (const { rule, id, cost } of limits) outcomes.push(newOutcome(bucketOf(rule, id), "", cost) as JointOutcome);
    const waiting = payments.takeLocally(outcomes) ? undefined : payments.takeOrRefuse(outcomes);
    if (waiting === undefined) return outcomes.map(accountDecision);
    return waiting.then(() => {
      // The app was removed meanwhile.
      for (const outcome of outcomes) if (outcome.code === PENDING) refuseWithoutStore(outcome);
      return outcomes.map(accountDecision);
    });
  }

  function refuseInvalid(app: Outcome, limitName: string): Decision {
    conclude(app, "local", INVALID_ARGUMENT, app.account.cell.get());
    return { ...decisionFrom(app), limitName };
  }

  function decisionOf(outcomes: JointOutcome[]): Decision {
    const app = outcomes[0]!;
    const others = outcomes.slice(1);
    const decision = decisionFrom(app);
    if (others.length === 0) return decision;
    const { code, allowed, retryAfterMs, source, rule } = outcomes[decisiveOutcome(outcomes)]!;
    decision.source = source === "local" ? (others.findLast((one) => one.source !== "local") ?? app).source : source;
    decision.allowed = allowed;
    decision.code = code;
    decision.retryAfterMs = allowed ? 0 : retryAfterMs;
    decision.appCode = app.code;
    if (code !== OK) decision.limitName = rule?.name;
    decision.limits = others.map(limitDecision);
    return decision;
  }

  return {
    hasRules: () => rules.rules.length > 0,

    check,
    takeAll,
    alone: createLimitsAlone({
      match: (request) => matchLimits(rules, request, sha1),
      bucketOf,
      payments,
      shared: options.shared,
    }),
    /** The rule of a limit. */
    ruleOf: (name: string): LimitRule | undefined => byName.get(name),

    /** An admitted exchange has ended: limits that count by cost are corrected to its actual cost. */
    settle({ limits = [] }: Decision, actualCost: number): void {
      for (const { name, code, cost, bucket } of limits) {
        const rule = byName.get(name);
        if (bucket === undefined || rule?.countsCost !== true || code !== OK) continue;
        // A bucket that was released meanwhile comes back until the correction is reported.
        const account = options.owner(bucket) ?? bucketOf(rule, bucket);
        settleLimit(account, cost, actualCost);
        syncerOf(account).spent(account);
      }
    },

    reconfigure(next: LimitRules | undefined, nextMaxValues: number): void {
      rules = next ?? NO_LIMITS;
      byName = namesOf(rules);
      maxValues = nextMaxValues;
    },

    stats: table.stats,
    close: table.close,
  };
}

const namesOf = ({ rules }: LimitRules) => new Map(rules.map((rule) => [rule.name, rule]));

const limitsOf = (id: string, { limits }: LimitRule): AppLimits => ({ ...limits, id });

export const sha1 = (text: string) => createHash("sha1").update(text, "latin1").digest("hex");
