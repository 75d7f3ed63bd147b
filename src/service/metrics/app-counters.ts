/** Counters per app: for the admin API per configured app, for metrics per label. */
import { OK } from "../../core/codes.js";
import type { Decision, LimitedTransfer } from "../../limiter/limiter.js";
import { metrics } from "./catalog.js";
import { layerOf, methodLabels, NO_APP } from "./labels.js";
import { observe, type Series, type Values } from "./series.js";

/** Number of refusals kept per app. */
const KEPT_REFUSALS = 20;
const LONGEST_METHOD = 32;

export interface RefusalReport extends Omit<Decision, "allowed" | "app" | "rate"> {
  /** Unix time in milliseconds. */
  at: number;
  node: string;
}

export type AppCounters = ReturnType<typeof newAppCounters>;

export function newAppCounters(label: string) {
  return {
    label,
    /** Undefined until first use, and while metrics are disabled. */
    series: undefined as LabelSeries | undefined,
    allowed: 0,
    refused: 0,
    dryRunRefused: 0,
    /** Decided without a sync. */
    l3Hits: 0,
    /** By reason, including dry runs. Undefined before the first refusal: most apps never have one. */
    refusals: undefined as Record<string, number> | undefined,
    /** Newest last. */
    lastRefusals: undefined as RefusalReport[] | undefined,
  };
}

/** @param at Unix time in milliseconds */
export function countRefusal(counters: AppCounters, decision: Decision, at: number, node: string): void {
  const { code, cost, balance, remaining, limit, retryAfterMs, source, dryRun } = decision;
  if (decision.allowed) counters.dryRunRefused++;
  else counters.refused++;
  counters.refusals ??= {};
  counters.lastRefusals ??= [];
  counters.refusals[code] = (counters.refusals[code] ?? 0) + 1;
  const method = decision.method.slice(0, LONGEST_METHOD);
  const refusal = { at, node, code, method, cost, balance, remaining, limit, retryAfterMs, source, dryRun };
  if (counters.lastRefusals.push(refusal) > KEPT_REFUSALS) counters.lastRefusals.shift();
}

export type AppReport = ReturnType<typeof appReport>;

/** @param balance tokens on this node's lease */
export function appReport(app: string, counters: AppCounters, node: string, balance: number) {
  const { allowed, refused, dryRunRefused, l3Hits, refusals, lastRefusals = [] } = counters;
  return {
    node,
    app,
    balance,
    l3Hits,
    refused,
    dryRunRefused,
    requests: allowed + refused + dryRunRefused,
    allowed: allowed + dryRunRefused,
    refusals: { ...refusals },
    /** Newest first. */
    lastRefusals: lastRefusals.toReversed(),
  };
}

/** The series of one label, which several apps may share. Looking them up for each decision would be too slow. */
export type LabelSeries = ReturnType<typeof createLabelSeries>;

export function createLabelSeries(all: Series, label: string) {
  const checkBounds = metrics.ratelimit_check_latency_seconds.bounds;
  const costBounds = metrics.ratelimit_request_cost.bounds;
  const allowed = all.of("ratelimit_requests_allowed_total", label);
  const rejected = all.of("ratelimit_requests_rejected_total", label);
  // Requests without an app have no lease.
  const hits = label === NO_APP ? [0] : all.of("ratelimit_l3_hits_total", label);
  const misses = label === NO_APP ? [0] : all.of("ratelimit_l3_misses_total", label);
  const methods = new Map<string, { method: string; allowed: Values; rejected: Values; cost: Values }>();
  const refusals = new Map<string, Values>();
  let local: Values | undefined;
  let remote: Values | undefined;
  let deviation: Values | undefined;

  function methodOf(name: string) {
    const method = methodLabels.includes(name) ? name : "OTHER";
    const known = methods.get(method);
    if (known !== undefined) return known;
    const allowed = all.of("ratelimit_requests_total", label, method, "allowed");
    const rejected = all.of("ratelimit_requests_total", label, method, "rejected");
    const created = { method, allowed, rejected, cost: all.of("ratelimit_request_cost", label, method) };
    methods.set(method, created);
    return created;
  }

  function refusalsOf(code: string): Values {
    const created = all.of("ratelimit_refusals_total", label, layerOf(code), code);
    refusals.set(code, created);
    return created;
  }

  return {
    /** A decision took `seconds`. `isHit`: it was made without a sync. */
    decided(decision: Decision, seconds: number, isRemote: boolean, isHit: boolean): void {
      const { code, allowed: isAllowed, method, cost } = decision;
      if (isRemote) remote ??= all.of("ratelimit_check_latency_seconds", label, "remote");
      else local ??= all.of("ratelimit_check_latency_seconds", label, "local");
      observe((isRemote ? remote : local)!, checkBounds, seconds);
      (isHit ? hits : misses)[0]!++;
      (isAllowed ? allowed : rejected)[0]!++;
      const own = methods.get(method) ?? methodOf(method);
      observe(own.cost, costBounds, cost);
      if (code === OK) own.allowed[0]!++;
      else if (isAllowed) all.add("ratelimit_requests_total", [label, own.method, "dry_run_rejected"]);
      else {
        own.rejected[0]!++;
        (refusals.get(code) ?? refusalsOf(code))[0]!++;
      }
    },
    /** An exchange has ended. Until `deviated` is called, its estimate counts as exact. */
    settled(): void {
      deviation ??= all.of("ratelimit_cost_deviation_ratio", label);
      deviation[1]!++;
    },
    deviated(ratio: number): void {
      deviation ??= all.of("ratelimit_cost_deviation_ratio", label);
      deviation[1]!--;
      observe(deviation, metrics.ratelimit_cost_deviation_ratio.bounds, ratio);
    },
    transferLimited: (action: LimitedTransfer): void => all.add("ratelimit_transfers_limited_total", [label, action]),
    hitRatio: (): number => hits[0]! / Math.max(hits[0]! + misses[0]!, 1),
  };
}
