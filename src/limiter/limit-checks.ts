/** Checks requests that have limits besides that of their app: tokens are taken from all limits, or from none. */
import { createHash } from "node:crypto";
import { DENIED, INVALID_ARGUMENT, OK } from "../core/codes.js";
import type { AppLimits } from "../core/limits.js";
import {
  type LimitMatch,
  type LimitRule,
  type LimitRules,
  matchLimits,
  overflowId,
  type RequestAttributes,
} from "../descriptors/limit-rules.js";
import { newOutcome, type Outcome, PENDING } from "../engine/account.js";
import {
  conclude,
  DECIDED_SYNC,
  decideMiss,
  isLow,
  refuseWithoutStore,
  remainingTokens,
  WAIT,
} from "../engine/decide.js";
import { activate } from "../engine/node.js";
import { refund, settleLimit } from "../engine/settle.js";
import {
  ALL_TAKEN,
  allAllowed,
  costAtLimit,
  decisiveOutcome,
  refuseTogether,
  takeTogether,
} from "../engine/together.js";
import { addWaiter, newWaiter } from "../engine/waiters.js";
import type { Clock } from "../shared/clock.js";
import type { LimiterAccount, LimiterWaiter } from "./accounts.js";
import type { Decision, LimitDecision } from "./limiter-contract.js";
import type { createSharedState } from "./shared-state.js";
import type { Syncer } from "./syncer.js";
import { createValueTable, type LimitAccounts } from "./value-table.js";

/** The outcomes of a request: first that of its app, then one per limit. */
type Outcomes = (Outcome & { account: LimiterAccount })[];

export interface LimitChecksOptions {
  rules: LimitRules;
  maxValues: number;
  clock: Clock;
  limits: LimitAccounts;
  /** The account of a bucket that is in use or leaving. */
  owner(id: string): LimiterAccount | undefined;
  syncerOf(account: LimiterAccount): Syncer;
  /** The app's own part of a decision. */
  decisionFrom(outcome: Outcome): Decision;
  shared: ReturnType<typeof createSharedState>;
}

/** The decision about the limits of a request, without its app. */
export interface LimitsOutcome {
  allowed: boolean;
  code: string;
  retryAfterMs: number;
  limits: LimitDecision[];
}

/** What a request of a data plane costs at the bucket of a value. */
export interface NamedCost {
  rule: LimitRule;
  id: string;
  cost: number;
}

/** The decision about one account of such a request. */
export type AccountDecision = Pick<Decision, "app" | "allowed" | "code" | "remaining" | "limit" | "retryAfterMs">;

const NONE_DENIED: readonly boolean[] = [];

function accountDecision({ account, allowed, code, balance, retryAfterMs }: Outcome): AccountDecision {
  const { id: app } = account.limits;
  return { app, allowed, code, remaining: remainingTokens(account, balance), limit: account.sync.limit, retryAfterMs };
}

/** The app was removed while the request waited: it is decided again. */
export const AGAIN = "again";

export type LimitChecks = ReturnType<typeof createLimitChecks>;

const NO_RULES: LimitRules = { rules: [], routes: [] };

export function createLimitChecks(options: LimitChecksOptions) {
  const { clock, syncerOf, decisionFrom } = options;
  let { rules, maxValues } = options;
  let byName = namesOf(rules);
  const table = createValueTable<LimitRule>({
    limits: options.limits,
    clock,
    maxValues: () => maxValues,
    idOf: (name) => name,
    limitsOf,
  });

  function bucketOf(rule: LimitRule, id: string): LimiterAccount {
    return (table.find(id, rule, !rule.hasFreeValues) ?? table.single(overflowId(rule.name), rule)).account;
  }

  /** `app` has its estimated cost. A promise if the request has to wait for the store. */
  function check(
    app: Outcome & { account: LimiterAccount },
    contentLength: number,
    request: RequestAttributes,
  ): Decision | Promise<Decision | typeof AGAIN> {
    const { invalid, matches } = matchLimits(rules, request, sha1);
    if (invalid !== undefined) return refuseInvalid(app, invalid);
    const outcomes: Outcomes = [app];
    let anyDenied = false;
    for (const { rule, id, denied } of matches) {
      const cost = costAtLimit(rule, app, contentLength);
      outcomes.push(newOutcome(bucketOf(rule, id), app.method, cost) as Outcomes[number]);
      if (denied) anyDenied = true;
    }
    if (!anyDenied && takeTogether(outcomes) === ALL_TAKEN) {
      for (const { account, balance } of outcomes) spent(account, balance);
      return decisionOf(outcomes, matches);
    }
    const found = matches;
    const denied = [false, ...matches.map((match) => match.denied)];
    if (refuseTogether(outcomes, denied, clock.now())) return decisionOf(outcomes, found);
    const waiting = outcomes.flatMap((outcome) => takeOrWait(outcome) ?? []);
    if (waiting.length === 0) return concluded(outcomes, found);
    return Promise.all(waiting).then((results) => {
      if (!results.includes(AGAIN)) return concluded(outcomes, found);
      giveBackPaid(outcomes);
      return AGAIN;
    });
  }

  /** As `check`, without tokens of an app: only the limits that match, each for one request or `hits` tokens by cost. */
  function checkOnly(request: RequestAttributes, hits: number): LimitsOutcome | Promise<LimitsOutcome> {
    const { invalid, matches } = matchLimits(rules, request, sha1);
    if (invalid !== undefined) return { allowed: false, code: INVALID_ARGUMENT, retryAfterMs: 0, limits: [] };
    if (matches.length === 0) return { allowed: true, code: OK, retryAfterMs: 0, limits: [] };
    const found = matches;
    const outcomes = matches.map(
      ({ rule, id }) => newOutcome(bucketOf(rule, id), request.method, hits) as Outcomes[number],
    );
    const denied = matches.map((match) => match.denied);
    if (!denied.includes(true) && takeTogether(outcomes) === ALL_TAKEN) {
      for (const { account, balance } of outcomes) spent(account, balance);
      return outcomeOf(outcomes, found);
    }
    if (refuseTogether(outcomes, denied, clock.now())) return outcomeOf(outcomes, found);
    const finish = () => {
      const outcome = outcomeOf(outcomes, found);
      if (!outcome.allowed) giveBackPaid(outcomes);
      return outcome;
    };
    const waiting = outcomes.flatMap((outcome) => takeOrWait(outcome) ?? []);
    return waiting.length === 0 ? finish() : Promise.all(waiting).then(finish);
  }

  /** The limits that match, by their state in the store. Nothing is taken. */
  async function look(request: RequestAttributes): Promise<LimitsOutcome> {
    const { invalid, matches } = matchLimits(rules, request, sha1);
    if (invalid !== undefined) return { allowed: false, code: INVALID_ARGUMENT, retryAfterMs: 0, limits: [] };
    const limits = await Promise.all(
      matches.map(async ({ rule, id, denied }) => {
        const account = bucketOf(rule, id);
        const { code, allowed, remaining, limit, rate, retryAfterMs } = await options.shared.look(account);
        const { dryRun } = account.limits;
        const own = denied ? { code: DENIED, allowed: dryRun } : { code, allowed };
        return { name: rule.name, cost: 0, ...own, dryRun, remaining, limit, rate, retryAfterMs };
      }),
    );
    const refused = limits.find(({ allowed }) => !allowed);
    return {
      allowed: refused === undefined,
      code: refused?.code ?? OK,
      retryAfterMs: refused?.retryAfterMs ?? 0,
      limits,
    };
  }

  /** Returns tokens that any node has taken. False if the store does not reply. */
  async function refundAll(request: RequestAttributes, hits: number): Promise<boolean> {
    const { matches } = matchLimits(rules, request, sha1);
    const done = await Promise.all(matches.map(({ rule, id }) => options.shared.refund(bucketOf(rule, id), hits)));
    return !done.includes(false);
  }

  /** Takes tokens of accounts that a data plane names, of all or of none. `app`: undefined if only limits pay. */
  function takeAll(
    app: Outcomes[number] | undefined,
    limits: NamedCost[],
  ): AccountDecision[] | Promise<AccountDecision[]> {
    const outcomes: Outcomes = app === undefined ? [] : [app];
    for (const { rule, id, cost } of limits)
      outcomes.push(newOutcome(bucketOf(rule, id), "", cost) as Outcomes[number]);
    if (takeTogether(outcomes) === ALL_TAKEN) {
      for (const { account, balance } of outcomes) spent(account, balance);
      return outcomes.map(accountDecision);
    }
    if (refuseTogether(outcomes, NONE_DENIED, clock.now())) return outcomes.map(accountDecision);
    const finish = () => {
      // The app was removed meanwhile.
      for (const outcome of outcomes) if (outcome.code === PENDING) refuseWithoutStore(outcome);
      const decisions = outcomes.map(accountDecision);
      if (!allAllowed(outcomes)) giveBackPaid(outcomes);
      return decisions;
    };
    const waiting = outcomes.flatMap((outcome) => takeOrWait(outcome) ?? []);
    return waiting.length === 0 ? finish() : Promise.all(waiting).then(finish);
  }

  function outcomeOf(outcomes: Outcomes, found: readonly LimitMatch[]): LimitsOutcome {
    const { code, allowed, retryAfterMs } = outcomes[decisiveOutcome(outcomes)]!;
    const limits = found.map(({ rule }, i) => limitDecision(rule, outcomes[i]!));
    return { allowed, code, retryAfterMs: allowed ? 0 : retryAfterMs, limits };
  }

  function refuseInvalid(app: Outcome, { name }: LimitRule): Decision {
    conclude(app, "local", INVALID_ARGUMENT, app.account.cell.get());
    return { ...decisionFrom(app), limitName: name };
  }

  function spent(account: LimiterAccount, balance: number): void {
    const syncer = syncerOf(account);
    if (!account.active) activate(syncer.node, account);
    if (isLow(syncer.node, account, balance)) syncer.wake(account);
  }

  /** Undefined if the outcome is decided. */
  function takeOrWait(outcome: Outcomes[number]): Promise<string> | undefined {
    const { account } = outcome;
    // A dry run of a denied value, or of a cost that the limit can never pay.
    if (outcome.code !== OK) return undefined;
    if (takeTogether([outcome]) === ALL_TAKEN) {
      spent(account, outcome.balance);
      return undefined;
    }
    const now = clock.now();
    const syncer = syncerOf(account);
    if (syncer.isClosed()) {
      refuseWithoutStore(outcome);
      return undefined;
    }
    syncer.level();
    const step = decideMiss(syncer.node, outcome, now);
    if (step === DECIDED_SYNC) syncer.wake(account);
    if (step !== WAIT) return undefined;
    return new Promise((resolve) => {
      const waiter: LimiterWaiter = {
        ...newWaiter(outcome, now + syncer.node.options.timeoutMs),
        wake: () => resolve(OK),
        decideAgain: () => resolve(AGAIN),
      };
      addWaiter(account, waiter);
      syncer.wake(account);
    });
  }

  function concluded(outcomes: Outcomes, found: readonly LimitMatch[]): Decision {
    const refused = !allAllowed(outcomes);
    const decision = decisionOf(outcomes, found);
    if (refused) giveBackPaid(outcomes);
    return decision;
  }

  /** A refused request uses nothing. */
  function giveBackPaid(outcomes: Outcomes): void {
    for (const { account, code, cost } of outcomes) {
      if (code !== OK || cost <= 0) continue;
      refund(account, cost);
      syncerOf(account).spent(account);
    }
  }

  function decisionOf(outcomes: Outcomes, found: readonly LimitMatch[]): Decision {
    const app = outcomes[0]!;
    const decision = decisionFrom(app);
    if (found.length === 0) return decision;
    const at = decisiveOutcome(outcomes);
    const { code, allowed, retryAfterMs, source } = outcomes[at]!;
    const limits: LimitDecision[] = [];
    for (let i = 0; i < found.length; i++) {
      limits.push(limitDecision(found[i]!.rule, outcomes[i + 1]!));
      if (source === "local" && outcomes[i + 1]!.source !== "local") decision.source = outcomes[i + 1]!.source;
    }
    if (source !== "local") decision.source = source;
    decision.allowed = allowed;
    decision.code = code;
    decision.retryAfterMs = allowed ? 0 : retryAfterMs;
    decision.appCode = app.code;
    if (at > 0 && code !== OK) decision.limitName = found[at - 1]!.rule.name;
    decision.limits = limits;
    return decision;
  }

  return {
    hasRules: () => rules.rules.length > 0,

    check,
    checkOnly,
    look,
    refund: refundAll,
    takeAll,
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
      rules = next ?? NO_RULES;
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

function limitDecision({ name, countsCost }: LimitRule, outcome: Outcome): LimitDecision {
  const { account, cost, code, allowed, balance } = outcome;
  const { id, guaranteed, dryRun } = account.limits;
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
