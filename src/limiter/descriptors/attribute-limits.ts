/** The domain `limits` of Envoy's rate limit service: the entries of a descriptor are attributes for the rules of `limits`. */
import { OK, STORE_UNAVAILABLE } from "../../core/codes.js";
import { ANONYMOUS_USER, DEFAULT_APP } from "../../core/identity.js";
import type { RequestAttributes } from "../../limit-rules/limit-rules.js";
import type { Limiter } from "../limiter.js";
import { bytesOf } from "../limits/limit-options.js";
import type { LimitsOutcome } from "../limits/limits-alone.js";
import {
  type Descriptor,
  type DescriptorDecision,
  type DescriptorStatus,
  type Entry,
  perUnitOf,
} from "./descriptor.js";

export const LIMITS_DOMAIN = "limits";

const valuesOf = (entries: readonly Entry[], ...keys: string[]) =>
  entries.filter(({ key }) => keys.includes(key.toLowerCase())).map(({ value }) => bytesOf(value));

export function attributesOf(entries: readonly Entry[]): RequestAttributes {
  const [path = "/"] = valuesOf(entries, "path");
  return {
    app: valuesOf(entries, "app", "app_id")[0] ?? DEFAULT_APP,
    user: valuesOf(entries, "user")[0] ?? ANONYMOUS_USER,
    method: valuesOf(entries, "method")[0] ?? "",
    host: valuesOf(entries, "host")[0] ?? "",
    path,
    address: valuesOf(entries, "ip", "remote_address")[0] ?? "",
    headerCount: (name) => Math.min(valuesOf(entries, `header:${name}`).length, 2),
    header: (name) => valuesOf(entries, `header:${name}`)[0] ?? "",
  };
}

/** The entries of all descriptors describe one request. Negative hits return tokens, also those that another node has taken. */
export function decideAttributes(
  { checkLimits, lookAtLimits, refundLimits }: Pick<Limiter, "checkLimits" | "lookAtLimits" | "refundLimits">,
  descriptors: readonly Descriptor[],
  hits: number,
): DescriptorDecision | Promise<DescriptorDecision> {
  const entries = descriptors.flatMap((descriptor) => descriptor.entries);
  const attributes = attributesOf(entries);
  const own = descriptors[0]?.hits ?? hits;
  const decided = (outcome: LimitsOutcome): DescriptorDecision => {
    const status = statusOf(outcome);
    return { allowed: outcome.allowed, code: outcome.code, statuses: descriptors.map(() => status) };
  };
  if (descriptors.some(({ negative }) => negative)) {
    return refundLimits(attributes, own).then(async (isDone) => {
      const outcome = decided(await lookAtLimits(attributes));
      const lost = { allowed: false, code: STORE_UNAVAILABLE };
      const status = isDone ? { allowed: true, code: OK, retryAfterMs: 0 } : lost;
      return { ...outcome, ...status, statuses: outcome.statuses.map((one) => ({ ...one, ...status })) };
    });
  }
  if (own === 0) return lookAtLimits(attributes).then(decided);
  const made = checkLimits(attributes, own);
  return made instanceof Promise ? made.then(decided) : decided(made);
}

/** Shows the limit that refused, or the one with the fewest tokens left. */
function statusOf({ allowed, code, retryAfterMs, limits }: LimitsOutcome): DescriptorStatus {
  const shown = limits.find((limit) => !limit.allowed) ?? [...limits].sort((a, b) => a.remaining - b.remaining)[0];
  const none = { allowed, code, unlimited: false, remaining: 0, resetMs: 0, retryAfterMs, shadow: false };
  if (shown === undefined) return none;
  const { name, limit, remaining, rate, dryRun } = shown;
  const left = Math.floor(remaining);
  return {
    ...none,
    limit: { name, ...perUnitOf(rate), burst: limit },
    remaining: left,
    resetMs: Math.ceil(((limit - left) / rate) * 1000),
    shadow: dryRun,
  };
}
