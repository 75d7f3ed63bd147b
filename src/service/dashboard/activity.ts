/** Requests per app and second, from the totals of workers and data planes. Only apps with new requests are sent by workers. */
import type { RefusalReport } from "../metrics/app-counters.js";
import type { PlaneTotals } from "../metrics/plane-totals.js";
import { KEPT_REFUSALS } from "../metrics/refusal-counts.js";
import type { ActivityReport } from "../metrics/reports.js";
import type { BusyApp } from "./contract.js";

interface Totals {
  requests: number;
  refused: number;
  dryRunRefused: number;
}

export type Activity = ReturnType<typeof createActivity>;

export function createActivity(planes: Pick<PlaneTotals, "apps" | "recentRefusals">) {
  /** By process, then by app. A replaced worker has another life. */
  const lives = new Map<string, Map<string, Totals>>();
  let before = new Map<string, Totals>();
  let beforeAt: number | undefined;
  let rates: BusyApp[] = [];
  let recent: (RefusalReport & { app: string })[] = [];

  /** Adds what workers report. A report has the apps that changed since the last report to anyone. */
  function absorb(reports: readonly ActivityReport[]): void {
    for (const { life, apps } of reports) {
      const known = lives.get(life) ?? new Map<string, Totals>();
      for (const [app, requests, refused, dryRunRefused] of apps) known.set(app, { requests, refused, dryRunRefused });
      lives.set(life, known);
    }
    const alive = new Set(reports.map(({ life }) => life));
    if (reports.length > 0) for (const life of lives.keys()) if (!alive.has(life)) lives.delete(life);
  }

  function totals(): Map<string, Totals> {
    const sums = new Map<string, Totals>();
    function add(app: string, { requests, refused, dryRunRefused }: Totals): void {
      const sum = sums.get(app);
      if (sum === undefined) sums.set(app, { requests, refused, dryRunRefused });
      else {
        sum.requests += requests;
        sum.refused += refused;
        sum.dryRunRefused += dryRunRefused;
      }
    }
    for (const apps of lives.values()) for (const [app, one] of apps) add(app, one);
    for (const [app, one] of planes.apps()) add(app, one);
    return sums;
  }

  return {
    absorb,
    /** Since the workers started. */
    totals,
    /** @param atMs monotonic */
    update(reports: readonly ActivityReport[], atMs: number): void {
      absorb(reports);
      recent = [...reports.flatMap(({ recentRefusals }) => recentRefusals), ...planes.recentRefusals()]
        .sort((one, other) => other.at - one.at)
        .slice(0, KEPT_REFUSALS);
      const now = totals();
      // After a pause, for example while nobody watched, rates are means over the pause.
      const seconds = beforeAt === undefined ? Number.POSITIVE_INFINITY : Math.max((atMs - beforeAt) / 1000, 0.001);
      const rate = (to: number, from = 0) => Math.round((Math.max(to - from, 0) / seconds) * 1e3) / 1e3;
      rates = [...now].map(([app_id, { requests, refused, dryRunRefused }]) => {
        const old = before.get(app_id);
        return {
          app_id,
          requests: rate(requests, old?.requests),
          refused: rate(refused, old?.refused),
          dry_run: rate(dryRunRefused, old?.dryRunRefused),
          total: requests,
          total_refused: refused,
          total_dry_run: dryRunRefused,
        };
      });
      [before, beforeAt] = [now, atMs];
    },
    /** Rates of an app since the last update. */
    of: (app: string): BusyApp | undefined => rates.find(({ app_id }) => app_id === app),
    busiest: (most: number): BusyApp[] =>
      rates
        .toSorted(
          (one, other) =>
            other.requests - one.requests || other.total - one.total || (one.app_id < other.app_id ? -1 : 1),
        )
        .slice(0, most),
    /** Newest first. */
    recentRefusals: () => recent,
  };
}
