/** Decides about descriptors, as Envoy's rate limit service does: which rule each of them meets, and whether its limit pays. */

import type { Limiter } from "../limiter/limiter.js";
import { type Clock, systemClock } from "../shared/clock.js";
import { createAnswers } from "./answers.js";
import { createBuckets } from "./buckets.js";
import { createQuestions } from "./questions.js";
import { compileRules, type DomainRules } from "./rules.js";
import type { Unit } from "./unit.js";

export type { Unit } from "./unit.js";

export interface Entry {
  key: string;
  value: string;
}

/** What is asked about: one bucket at most is behind it. */
export interface Descriptor {
  entries: readonly Entry[];
  /** In place of the request's hits; 0 takes nothing and tells how things are. */
  hits?: number;
  /** The hits are given back instead of taken. Never refused. */
  negative?: boolean;
  /** A limit that the caller brings along; it counts instead of the rule's. */
  override?: { perUnit: number; unit: Unit };
}

/** The limit that a descriptor met. */
export interface AppliedLimit {
  /** Empty where the rule gives it none. */
  name: string;
  perUnit: number;
  unit: Unit;
}

export interface DescriptorStatus {
  /** False: over the limit. In shadow mode always true. */
  allowed: boolean;
  /** Of core/codes: "ok", or why not; in shadow mode why it would have been refused. */
  code: string;
  /** None where no rule matches, where the rule is unlimited, or where another one replaces it. */
  limit?: AppliedLimit;
  /** The rule is unlimited: there is nothing that could run out. */
  unlimited: boolean;
  /** Whole tokens; 0 where there is no limit. */
  remaining: number;
  /** Until the bucket is full again. */
  resetMs: number;
  /** How soon to try again after a refusal; 0 where no waiting helps, or where nothing was refused. */
  retryAfterMs: number;
  /** The rule only watches: what it would have refused passes. */
  shadow: boolean;
}

export interface Verdict {
  allowed: boolean;
  /** The code of the status that decided: "ok", or of the first that refused. */
  code: string;
  /** One for each descriptor, in their order. */
  statuses: DescriptorStatus[];
  /** What the rules whose limits were kept say besides, merged; for Envoy's dynamic metadata. */
  metadata?: Record<string, unknown>;
}

export interface RuleSettings {
  domains: readonly DomainRules[];
  /** Values of open keys that have a bucket of their own here at a time; more share one per rule. */
  maxValues: number;
}

export interface RuleBookOptions extends RuleSettings {
  limiter: Pick<Limiter, "take" | "giveBack" | "limits">;
  clock?: Clock;
}

export interface RuleBook {
  /**
   * At once where the leases decide, as for most requests. `hits` counts for descriptors that have none of their own. All
   * limits must be kept, or none of them loses anything: what was taken goes back where another one refuses.
   */
  decide(domain: string, descriptors: readonly Descriptor[], hits: number): Verdict | Promise<Verdict>;
  /** Other rules, from the next request on. Buckets of limits that stay keep their tokens. */
  reconfigure(settings: RuleSettings): void;
  stats(): { rules: number; buckets: number; overflowed: number };
  /** Begins nothing any more; tokens go back with the limiter's own. */
  close(): void;
}

export function createRuleBook({ limiter, clock = systemClock, ...initial }: RuleBookOptions): RuleBook {
  let settings: RuleSettings = initial;
  let rules = compileRules(settings.domains);
  const buckets = createBuckets({ limits: limiter.limits, clock, maxValues: () => settings.maxValues });
  const questionsOf = createQuestions(buckets);
  const answer = createAnswers({ limiter, clock });
  return {
    decide: (domain, descriptors, hits) => answer(questionsOf(rules, domain, descriptors, hits)),
    reconfigure(next) {
      settings = next;
      rules = compileRules(next.domains);
    },
    stats: () => ({ rules: rules.rules.length, buckets: buckets.stats().live, overflowed: buckets.stats().overflowed }),
    close: buckets.close,
  };
}
