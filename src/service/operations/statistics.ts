/** Combines the reports of all workers. */
import type { AppReport } from "../metrics/app-counters.js";
import type { LimitReport } from "../metrics/node-metrics.js";
import { type AppDecisions, noAppDecisions, noDecisions, type PlaneTotals } from "../metrics/plane-totals.js";
import { latencyBoundsSeconds } from "../metrics/process-counters.js";
import { addCounts, KEPT_REFUSALS } from "../metrics/refusal-counts.js";
import type { NodeReport } from "../metrics/reports.js";
import { quantile } from "../metrics/series.js";
import type { StatusReply } from "./contract/contract.js";

/** Only workers are counted in syncs. `planes`: decisions of data planes. */
export function statistics(reports: readonly NodeReport[], planes = noDecisions()): StatusReply["statistics"] {
  const sum = (value: (report: NodeReport) => number) => reports.reduce((total, report) => total + value(report), 0);
  const own = sum(({ local, cached, remote, withoutStore }) => local + cached + remote + withoutStore);
  const local = sum((report) => report.local + report.cached) + planes.l3Hits;
  const requests = own + planes.requests;
  const refused = sum((report) => report.refused) + planes.refused;
  const [latencySeconds = 0, ...counts] = Array.from(
    { length: latencyBoundsSeconds.length + 2 },
    (_, i) => sum(({ latency }) => latency[i] ?? 0) + (planes.latency[i] ?? 0),
  );
  const measured = counts.reduce((total, count) => total + count, 0);
  return {
    total_requests: requests,
    allowed_requests: requests - refused,
    rejected_requests: refused,
    rejection_rate: ratio(refused, requests),
    avg_latency_ms: measured === 0 ? 0 : rounded((latencySeconds / measured) * 1000),
    p99_latency_ms: rounded(quantileSeconds(counts, 0.99) * 1000),
    l3_hit_ratio: ratio(local, requests),
    dry_run_rejected: sum(({ dryRunRefused }) => dryRunRefused) + planes.dryRunRefused,
    syncs: sum(({ syncs }) => syncs),
    failed_syncs: sum(({ failedSyncs }) => failedSyncs),
  };
}

/** `counts` is without the sum. */
export function quantileSeconds(counts: readonly number[], share: number): number {
  return quantile(latencyBoundsSeconds, counts, share);
}

/**
 * Of workers and data planes, with the newest refusal first. Apps without requests have zeros.
 * @param planes decisions of data planes by app
 */
export function appTotals(
  apps: readonly string[],
  answers: readonly AppReport[][],
  planes: PlaneTotals["ofApp"],
): Map<string, AppDecisions> {
  const totals = new Map(apps.map((app) => [app, noAppDecisions()]));
  for (const [app, total] of totals) addApp(total, planes(app));
  for (const report of answers.flat()) {
    const total = totals.get(report.app) ?? noAppDecisions();
    addApp(total, report);
    totals.set(report.app, total);
  }
  return totals;
}

function addApp(total: AppDecisions, more: AppDecisions | undefined): void {
  if (more === undefined) return;
  for (const name of ["requests", "allowed", "refused", "dryRunRefused", "l3Hits"] as const) total[name] += more[name];
  addCounts(total.refusals, more.refusals);
  addCounts(total.dryRunRefusals, more.dryRunRefusals);
  for (const [i, count] of more.costs.entries()) total.costs[i] = (total.costs[i] ?? 0) + count;
  if (more.lastRefusals.length === 0) return;
  total.lastRefusals = [...total.lastRefusals, ...more.lastRefusals]
    .sort((one, other) => other.at - one.at)
    .slice(0, KEPT_REFUSALS);
}

interface LimitDecisions {
  requests: number;
  allowed: number;
  rejected: number;
  dry_run_rejected: number;
}

/** Requests at limits of `limits`, of workers and data planes. */
export function limitDecisions(reports: Iterable<LimitReport>): Map<string, LimitDecisions> {
  const sums = new Map<string, LimitDecisions>();
  for (const [name, allowed, rejected, dryRun] of reports) {
    const sum = sums.get(name) ?? { requests: 0, allowed: 0, rejected: 0, dry_run_rejected: 0 };
    sum.requests += allowed + rejected + dryRun;
    sum.allowed += allowed + dryRun;
    sum.rejected += rejected;
    sum.dry_run_rejected += dryRun;
    sums.set(name, sum);
  }
  return sums;
}

/** 0 if `all` is 0. */
export function ratio(some: number, all: number): number {
  return all === 0 ? 0 : rounded(some / all);
}

function rounded(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}
