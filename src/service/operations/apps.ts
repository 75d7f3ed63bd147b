/** Apps: balances of every layer, leases, request counters, and explanations of refusals. */

import type { AppLimits } from "../../core/app-limits.js";
import { COST_BOUNDS } from "../../core/cost.js";
import { mapConcurrently } from "../../shared/concurrently.js";
import type { AppReport, RefusalReport } from "../metrics/app-counters.js";
import { appLayerOf } from "../metrics/labels.js";
import { noAppDecisions } from "../metrics/plane-totals.js";
import { byCode, reasonsOf } from "../metrics/refusal-counts.js";
import { type OperationsContext, unknownApp } from "./context.js";
import * as contract from "./contract/contract.js";
import { ifAvailable } from "./deadline.js";
import { admin, type Endpoint, ok } from "./endpoint.js";
import { type ClusterLimits, explainApp, explainRefusal } from "./explain.js";
import { nodeName } from "./health.js";
import { descriptorLimits } from "./named-limits.js";
import { appTotals, ratio } from "./statistics.js";

/** Concurrent store calls. */
const CONCURRENT = 32;

type Lease = contract.AppReply["layers"]["l3"]["leases"][number];

/** Reads apps for the admin API and the dashboard. */
function appReader(context: OperationsContext) {
  const { quota } = context;

  function clusterLimits(): ClusterLimits {
    const { cluster, fail_open_tokens } = context.live.current();
    return { capacity: cluster.capacity, rate: cluster.rate, failOpenTokens: fail_open_tokens };
  }

  async function reportsOf(apps: string[]): Promise<AppReport[][]> {
    return (await ifAvailable(context.ask({ kind: "apps", apps }))) ?? [];
  }

  const totalsOf = (apps: string[], reports: AppReport[][]) => appTotals(apps, reports, context.planes.totals.ofApp);

  function refusalOf(report: RefusalReport, app: AppLimits, cluster: ClusterLimits): contract.Refusal {
    const { at, node, retryAfterMs, dryRun, limitName, ...same } = report;
    return {
      timestamp: new Date(at).toISOString(),
      node_id: node,
      ...same,
      ...(limitName === undefined ? {} : { limit_name: limitName }),
      layer: appLayerOf(report.code),
      retry_after_ms: retryAfterMs,
      dry_run: dryRun,
      explanation: explainRefusal(report, app, cluster),
    };
  }

  /** The leases of an app according to the store, with the balances that our workers report. */
  async function leasesOf(app: string, reports: AppReport[]): Promise<Lease[] | undefined> {
    const balances = new Map(reports.map(({ node, balance }) => [node, balance]));
    const shard = quota.of(app);
    const leases = await ifAvailable(
      shard.nodes().then((nodes) =>
        mapConcurrently(nodes, CONCURRENT, async ({ node, alive }) => {
          const own = (await shard.ledger(node)).apps.find((entry) => entry.app === app);
          if (own === undefined) return [];
          const { granted, spent, returned } = own;
          const held = Math.max(granted - spent - returned, 0);
          const node_id = nodeName(node);
          const balance = alive ? (balances.get(node_id) ?? null) : null;
          return alive || held > 0 ? [{ node_id, alive, held, granted, spent, returned, balance }] : [];
        }),
      ),
    );
    return leases?.flat();
  }

  return {
    /** @param page the apps to read
     *  @param total the number of apps from which they were selected */
    async list(page: readonly AppLimits[], total: number): Promise<contract.AppsReply> {
      const cluster = clusterLimits();
      const limits = descriptorLimits(context.live.current());
      const labels = limits.map(({ name }) => name);
      const [reports, limitReports, balances, l1] = await Promise.all([
        reportsOf(page.map(({ id }) => id)),
        labels.length === 0 ? [] : reportsOf(labels),
        ifAvailable(mapConcurrently(page, CONCURRENT, (app) => quota.inspect(app))),
        ifAvailable(quota.cluster()),
      ]);
      const totals = totalsOf(
        page.map(({ id }) => id),
        reports,
      );
      const limitTotals = totalsOf(labels, limitReports);
      return {
        apps: page.map((app, i) => {
          const total = totals.get(app.id) ?? noAppDecisions();
          const [last] = total.lastRefusals;
          const lastRefusal = last && refusalOf(last, app, cluster);
          return contract.appSummaryOf({ app, balances: balances?.[i], total, lastRefusal });
        }),
        total,
        descriptor_limits: limits.map(({ name, rate, limits: { burst, dryRun } }) => ({
          ...{ limit: name, rate, burst, dry_run: dryRun },
          ...contract.countsOf(limitTotals.get(name) ?? noAppDecisions()),
        })),
        cluster: clusterOf(l1, cluster),
        timestamp: context.timestamp(),
      };
    },

    async one(id: string): Promise<contract.AppReply> {
      const app = context.findApp(id);
      const cluster = clusterLimits();
      const [reports, balances, l1, workers] = await Promise.all([
        reportsOf([id]),
        ifAvailable(quota.inspect(app)),
        ifAvailable(quota.cluster()),
        context.reports(),
      ]);
      const leases = balances === undefined ? undefined : await leasesOf(id, reports.flat());
      const total = totalsOf([id], reports).get(id) ?? noAppDecisions();
      const [last] = total.lastRefusals;
      const why = explainApp(
        app,
        {
          balances,
          emergency: context.coordinator.emergency(),
          level: context.level(workers),
          last: last === undefined ? undefined : { refusal: last, agoMs: Math.max(Date.now() - last.at, 0) },
        },
        cluster,
      );
      return {
        app_id: id,
        config: { ...contract.limitsOf(app), borrow: app.borrow, on_store_failure: app.onStoreFailure },
        layers: {
          l1: clusterOf(l1, cluster),
          l2: balances === undefined ? null : bucketOf(balances),
          l3: {
            held: leases?.reduce((sum, { held }) => sum + held, 0) ?? null,
            recalling: context.isRecalled(id),
            leases: leases ?? [],
          },
        },
        statistics: {
          ...contract.countsOf(total),
          l3_hit_ratio: ratio(total.l3Hits, total.requests),
          refusals: byCode(total.refusals),
          reasons: reasonsOf(total.refusals, total.dryRunRefusals),
          cost_histogram: costHistogram(total.costs),
        },
        why,
        last_refusals: total.lastRefusals.map((report) => refusalOf(report, app, cluster)),
        timestamp: context.timestamp(),
      };
    },
  };
}

export const appOf = (context: OperationsContext, id: string) => appReader(context).one(id);

export function appEndpoints(context: OperationsContext): Endpoint[] {
  const reader = appReader(context);
  return [
    admin("GET", "apps", {
      summary: "The configured apps, with their balances and request counters of this service.",
      query: contract.appsQuery,
      reply: contract.appsReply,
      async handle({ query: { offset, limit, search, sort } }) {
        const found = context.apps().filter(({ id }) => id.includes(search));
        const sorted = sort === "config" ? found : sortedApps(found, sort, await decisions(context));
        return ok(await reader.list(sorted.slice(offset, offset + limit), found.length));
      },
    }),

    admin("GET", "apps/{id}", {
      summary: "One app in detail: every layer, every lease, and why requests were refused.",
      reply: contract.appReply,
      others: unknownApp,
      handle: async ({ params: { id = "" } }) => ok(await reader.one(id)),
    }),
  ];
}

type Decisions = Map<string, { requests: number; refused: number }>;

/** Requests and refusals of all apps. Workers are asked once for all of them. */
async function decisions(context: OperationsContext): Promise<Decisions> {
  const apps = context.apps().map(({ id }) => id);
  const reports = (await ifAvailable(context.ask({ kind: "apps", apps }))) ?? [];
  return appTotals(apps, reports, context.planes.totals.ofApp);
}

function sortedApps(apps: readonly AppLimits[], sort: "id" | "requests" | "rejected", totals: Decisions): AppLimits[] {
  const byId = (one: AppLimits, other: AppLimits) => (one.id < other.id ? -1 : 1);
  if (sort === "id") return apps.toSorted(byId);
  const name = sort === "requests" ? "requests" : "refused";
  const number = ({ id }: AppLimits) => totals.get(id)?.[name] ?? 0;
  return apps.toSorted((one, other) => number(other) - number(one) || byId(one, other));
}

function clusterOf(l1: { tokens: number } | undefined, { capacity, rate }: ClusterLimits) {
  return { tokens: l1?.tokens ?? null, capacity, rate };
}

function costHistogram(costs: readonly number[]): contract.AppReply["statistics"]["cost_histogram"] {
  return costs.map((requests, i) => ({ up_to: COST_BOUNDS[i] ?? null, requests }));
}

function bucketOf({ tokens, debt, granted, spent, returned }: NonNullable<contract.AppReply["layers"]["l2"]>) {
  return { tokens, debt, granted, spent, returned };
}
