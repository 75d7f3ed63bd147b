/** Counters per app: for the admin API per configured app, for metrics per label. */
import { OK } from "../../core/codes.js";
import type { Decision, LimitedTransfer } from "../../limiter/limiter.js";
import { metrics } from "./catalog.js";
import { type Layer, layerOf, methodLabels, NO_APP, OTHER_METHODS } from "./labels.js";
import { addCount, keepRefusal, type RefusalCounts, reasonKey } from "./refusal-counts.js";
import { observe, type Series, type Values } from "./series.js";

const LONGEST_METHOD = 32;

export interface RefusalReport extends Omit<Decision, "allowed" | "app" | "rate"> {
  /** The request was admitted: whichever limit refused it is on a dry run. */
  dryRun: boolean;
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
    /** By reason. Undefined before the first one: most apps never have one. */
    refusals: undefined as RefusalCounts | undefined,
    dryRunRefusals: undefined as RefusalCounts | undefined,
    /** Newest last. */
    lastRefusals: undefined as RefusalReport[] | undefined,
  };
}

/** The numbers of a refusal belong to the limit that refused: one of `limits`, or the app's own. @param at Unix time in milliseconds */
export function countRefusal(counters: AppCounters, decision: Decision, at: number, node: string): RefusalReport {
  const { code, limitName, retryAfterMs, source, allowed: dryRun, limits = [] } = decision;
  const refused = limitName === undefined ? undefined : limits.find(({ name }) => name === limitName);
  const { cost, balance = decision.balance, remaining, limit } = refused ?? decision;
  if (dryRun) {
    counters.dryRunRefused++;
    counters.dryRunRefusals ??= {};
    addCount(counters.dryRunRefusals, reasonKey(code, limitName));
  } else {
    counters.refused++;
    counters.refusals ??= {};
    addCount(counters.refusals, reasonKey(code, limitName));
  }
  counters.lastRefusals ??= [];
  const method = decision.method.slice(0, LONGEST_METHOD);
  const numbers = { code, method, cost, balance, remaining, limit, retryAfterMs, source, dryRun };
  const refusal = { at, node, ...numbers, ...(limitName === undefined ? {} : { limitName }) };
  keepRefusal(counters.lastRefusals, refusal);
  return refusal;
}

export type AppReport = ReturnType<typeof appReport>;

/** @param balance tokens on this node's lease */
export function appReport(app: string, counters: AppCounters, node: string, balance: number) {
  const { allowed, refused, dryRunRefused, l3Hits, refusals, dryRunRefusals, lastRefusals = [] } = counters;
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
    dryRunRefusals: { ...dryRunRefusals },
    /** Requests by cost, with the bounds of ratelimit_request_cost. Empty without metrics, and for apps that share a label. */
    costs: counters.label === app ? (counters.series?.costs() ?? []) : [],
    /** Newest first. */
    lastRefusals: lastRefusals.toReversed(),
  };
}

interface MethodSeries {
  method: string;
  allowed: Values;
  rejected: Values;
  cost: Values;
}

const checkBounds = metrics.ratelimit_check_latency_seconds.bounds;
const costBounds = metrics.ratelimit_request_cost.bounds;
const deviationBounds = metrics.ratelimit_cost_deviation_ratio.bounds;

/**
 * The series of one label, which several apps may share. Looking them up for each decision would be too slow. A class: there
 * may be many labels, and closures need several times the memory.
 */
export class LabelSeries {
  private readonly allowed: Values;
  private readonly rejected: Values;
  private readonly hits: Values;
  private readonly misses: Values;
  /** A list: most labels have one or two. */
  private readonly methods: MethodSeries[] = [];
  /** By code and whether a limit of `limits` refused. Most labels have none. */
  private refusals: Map<string, Values> | undefined;
  private local: Values | undefined;
  private remote: Values | undefined;
  private deviation: Values | undefined;

  constructor(
    private readonly all: Series,
    private readonly label: string,
  ) {
    this.allowed = all.of("ratelimit_requests_allowed_total", label);
    this.rejected = all.of("ratelimit_requests_rejected_total", label);
    // Requests without an app have no lease.
    this.hits = label === NO_APP ? [0] : all.of("ratelimit_l3_hits_total", label);
    this.misses = label === NO_APP ? [0] : all.of("ratelimit_l3_misses_total", label);
  }

  /** A decision took `seconds`. `isHit`: it was made without a sync. */
  decided(decision: Decision, seconds: number, isRemote: boolean, isHit: boolean): void {
    const { code, allowed: isAllowed, method, cost, limitName } = decision;
    observe(isRemote ? this.remoteLatency() : this.localLatency(), checkBounds, seconds);
    (isHit ? this.hits : this.misses)[0]++;
    (isAllowed ? this.allowed : this.rejected)[0]++;
    const own = this.methodOf(method);
    observe(own.cost, costBounds, cost);
    if (code === OK) own.allowed[0]++;
    else if (isAllowed) this.all.add("ratelimit_requests_total", [this.label, own.method, "dry_run_rejected"]);
    else {
      own.rejected[0]++;
      this.refusalsOf(code, layerOf(code, limitName))[0]++;
    }
  }

  /** An exchange has ended. Until `deviated` is called, its estimate counts as exact. */
  settled(): void {
    this.deviations()[1]!++;
  }

  deviated(ratio: number): void {
    const deviation = this.deviations();
    deviation[1]!--;
    observe(deviation, deviationBounds, ratio);
  }

  transferLimited(action: LimitedTransfer): void {
    this.all.add("ratelimit_transfers_limited_total", [this.label, action]);
  }

  costs(): number[] {
    const sums = new Array<number>(costBounds.length + 1).fill(0);
    // The first number of a histogram is its sum.
    for (const { cost } of this.methods) for (let i = 0; i < sums.length; i++) sums[i]! += cost[i + 1] ?? 0;
    return sums;
  }

  hitRatio(): number {
    return this.hits[0] / Math.max(this.hits[0] + this.misses[0], 1);
  }

  private localLatency(): Values {
    this.local ??= this.all.of("ratelimit_check_latency_seconds", this.label, "local");
    return this.local;
  }

  private remoteLatency(): Values {
    this.remote ??= this.all.of("ratelimit_check_latency_seconds", this.label, "remote");
    return this.remote;
  }

  private deviations(): Values {
    this.deviation ??= this.all.of("ratelimit_cost_deviation_ratio", this.label);
    return this.deviation;
  }

  private methodOf(name: string): MethodSeries {
    for (const known of this.methods) if (known.method === name) return known;
    if (name !== OTHER_METHODS && !methodLabels.includes(name)) return this.methodOf(OTHER_METHODS);
    const { all, label } = this;
    const allowed = all.of("ratelimit_requests_total", label, name, "allowed");
    const rejected = all.of("ratelimit_requests_total", label, name, "rejected");
    const created = { method: name, allowed, rejected, cost: all.of("ratelimit_request_cost", label, name) };
    this.methods.push(created);
    return created;
  }

  private refusalsOf(code: string, layer: Layer): Values {
    this.refusals ??= new Map();
    const key = layer === "limit" ? `limit ${code}` : code;
    const known = this.refusals.get(key);
    if (known !== undefined) return known;
    const created = this.all.of("ratelimit_refusals_total", this.label, layer, code);
    this.refusals.set(key, created);
    return created;
  }
}
