/** The limits of requests besides those of their apps: which apply, and the account of each value. */
import { createHash } from "node:crypto";
import type { AppLimits } from "../../core/app-limits.js";
import { OK } from "../../core/codes.js";
import { corrected } from "../../engine/payments.js";
import { settleCost } from "../../engine/settle.js";
import {
  findLimits,
  isOverflow,
  type LimitMatch,
  type LimitRule,
  type LimitRules,
  type MatchedLimits,
  matchLimits,
  NO_LIMITS,
  overflowOf,
  type RecentMatches,
  type RequestAttributes,
} from "../../limit-rules/limit-rules.js";
import type { Clock } from "../../shared/clock.js";
import type { LimiterAccount } from "../accounts.js";
import type { Decision } from "../limiter-contract.js";
import type { LimiterHost } from "../limiter-host.js";
import type { createSharedState } from "../shared-state.js";
import { createLimitsAlone } from "./limits-alone.js";
import { createValueTable, type LimitAccounts } from "./value-table.js";

export interface LimitChecksOptions {
  host: LimiterHost;
  clock: Clock;
  rules: LimitRules;
  maxValues: number;
  limits: LimitAccounts;
  /** The account of a bucket that is in use or leaving. */
  owner(id: string): LimiterAccount | undefined;
  shared: ReturnType<typeof createSharedState>;
}

export function createLimitChecks(options: LimitChecksOptions) {
  const { host, clock } = options;
  let { maxValues } = options;
  let rules = withMemory(options.rules);
  let byName = namesOf(rules);
  /** Of the current request. */
  let current: RequestAttributes | undefined;
  const table = createValueTable<LimitRule>({
    limits: options.limits,
    clock,
    maxValues: () => maxValues,
    idOf: (name) => name,
    limitsOf,
  });

  /** `client`: the address of the request; empty if it is not known. */
  function bucketOf(rule: LimitRule, id: string, client: string): LimiterAccount {
    const own = table.find(id, rule, !rule.hasFreeValues || isOverflow(id));
    return (own ?? table.single(overflowOf(rule.name, client, sha1), rule)).account;
  }

  function findAccount(match: LimitMatch): LimiterAccount {
    const account = bucketOf(match.rule, match.id, current?.address ?? "");
    // Not the one that values share: there may be room later.
    if (account.limits.id === match.id) match.account = account;
    return account;
  }

  return {
    /** Finds the limits of a request. False if it has none. */
    find(matched: MatchedLimits, request: RequestAttributes): boolean {
      if (rules.rules.length === 0) return false;
      current = request;
      findLimits(matched, rules, request, sha1);
      return matched.count > 0 || matched.invalid !== "";
    },

    /** The account of a value of the request whose limits were found last. */
    accountOf(match: LimitMatch): LimiterAccount {
      const known = match.account as LimiterAccount | undefined;
      if (known === undefined || known.leaving) return findAccount(match);
      known.isUsed = true;
      return known;
    },

    alone: createLimitsAlone({
      match: (request) => matchLimits(rules, request, sha1),
      bucketOf,
      host,
      shared: options.shared,
    }),

    /** An admitted exchange has ended: limits that count by cost are corrected to its actual cost. */
    settle({ limits = [] }: Decision, actualCost: number): void {
      for (const { name, code, cost, bucket } of limits) {
        if (bucket === undefined || code !== OK) continue;
        const rule = byName.get(name);
        if (rule?.countsCost !== true) continue;
        // A bucket that was released meanwhile comes back until the correction is reported.
        const account = options.owner(bucket) ?? bucketOf(rule, bucket, "");
        corrected(host, account, settleCost(account, cost, actualCost));
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
