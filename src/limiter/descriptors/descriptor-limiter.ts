/** Decides about descriptors with the semantics of envoyproxy/ratelimit: finds the limit of each and takes its tokens. */

import { type Clock, systemClock } from "../../shared/clock.js";
import type { Limiter } from "../limiter.js";
import { decideAttributes, LIMITS_DOMAIN } from "./attribute-limits.js";
import { createBuckets } from "./buckets.js";
import type { Descriptor } from "./descriptor.js";
import { findLimits } from "./limit-requests.js";
import { compileRules, type DomainRules } from "./rules.js";
import { createTokenTaker } from "./token-taker.js";

export interface DescriptorOptions {
  domains: readonly DomainRules[];
  /** Maximum number of buckets for single values. Further values share one bucket per rule. */
  maxValues: number;
}

interface DescriptorLimiterOptions extends DescriptorOptions {
  limiter: Pick<Limiter, "take" | "giveBack" | "look" | "limits" | "checkLimits" | "lookAtLimits" | "refundLimits">;
  clock?: Clock;
}

export type DescriptorLimiter = ReturnType<typeof createDescriptorLimiter>;

export function createDescriptorLimiter(options: DescriptorLimiterOptions) {
  const { limiter, clock = systemClock } = options;
  let { maxValues } = options;
  let rules = compileRules(options.domains);
  const buckets = createBuckets(limiter.limits, clock, () => maxValues);
  const takeTokens = createTokenTaker(limiter, clock);
  return {
    /**
     * Synchronous if the leases decide, as for most requests. `hits` applies to descriptors without their own. Takes tokens
     * of all limits or of none: if one refuses, the tokens taken of the others are given back.
     */
    decide: (domain: string, descriptors: readonly Descriptor[], hits: number) =>
      domain === LIMITS_DOMAIN
        ? decideAttributes(limiter, descriptors, hits)
        : takeTokens(findLimits({ rules, buckets }, domain, descriptors, hits)),
    /** Applies from the next request on. Limits that stay keep their tokens. */
    reconfigure(changed: DescriptorOptions): void {
      maxValues = changed.maxValues;
      rules = compileRules(changed.domains);
    },
    stats: () => ({ rules: rules.rules.length, ...buckets.stats() }),
    /** Stops the timers. The limiter returns the tokens when it is closed. */
    close: buckets.close,
  };
}
