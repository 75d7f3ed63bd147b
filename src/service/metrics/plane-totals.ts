/** Decisions of data planes as the admin API shows them: in total and per configured app, since this service started. */
import { methodLabels, reasons } from "./labels.js";
import type { PlaneReport } from "./reports.js";

export interface DecisionTotals {
  requests: number;
  allowed: number;
  refused: number;
  dryRunRefused: number;
  /** Decided without a sync. */
  l3Hits: number;
  /** By reason. */
  refusals: Record<string, number>;
  /** Requests by cost, with the bounds of ratelimit_request_cost. */
  costs: number[];
}

export function noDecisions(): DecisionTotals {
  return { requests: 0, allowed: 0, refused: 0, dryRunRefused: 0, l3Hits: 0, refusals: {}, costs: [] };
}

export type PlaneTotals = ReturnType<typeof createPlaneTotals>;

export function createPlaneTotals() {
  const all = noDecisions();
  const byApp = new Map<string, DecisionTotals>();

  return {
    /** @param isConfigured other apps are counted in the total only, so that data planes cannot grow the table */
    add({ app, numbers }: PlaneReport["apps"][number], isConfigured: boolean): void {
      addTo(all, numbers);
      if (!isConfigured) return;
      let own = byApp.get(app);
      if (own === undefined) {
        own = noDecisions();
        byApp.set(app, own);
      }
      addTo(own, numbers);
    },
    all: () => all,
    /** Undefined if data planes had no requests of the app. */
    ofApp: (app: string): DecisionTotals | undefined => byApp.get(app),
    apps: (): Iterable<[string, DecisionTotals]> => byApp,
  };
}

function addTo(totals: DecisionTotals, numbers: Record<string, number[]>): void {
  for (const [name, [first = 0, second = 0, third = 0, _sum, ...costs]] of Object.entries(numbers)) {
    if (name === "l3") totals.l3Hits += first;
    else if (methodLabels.includes(name)) {
      totals.requests += first + second + third;
      totals.allowed += first + third;
      totals.refused += second;
      totals.dryRunRefused += third;
      for (const [i, count] of costs.entries()) totals.costs[i] = (totals.costs[i] ?? 0) + count;
    } else if (reasons.includes(name)) totals.refusals[name] = (totals.refusals[name] ?? 0) + first;
  }
}
