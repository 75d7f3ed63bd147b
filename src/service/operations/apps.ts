/** Apps: balances of every layer, leases, request counters, and explanations of refusals. */
import { ALL_APPS } from "../../core/keys.js";
import type { AppLimits } from "../../core/limits.js";
import { mapConcurrently } from "../../shared/concurrently.js";
import type { AppReport, RefusalReport } from "../metrics/app-counters.js";
import { layerOf } from "../metrics/labels.js";
import { type OperationsContext, unknownApp } from "./context.js";
import * as contract from "./contract/contract.js";
import { ifAvailable } from "./deadline.js";
import { admin, type Endpoint, ok } from "./endpoint.js";
import { type ClusterLimits, explainApp, explainRefusal } from "./explain.js";
import { nodeName } from "./health.js";
import { appTotals, noTotals, ratio } from "./statistics.js";

/** Concurrent store calls. */
const CONCURRENT = 32;

type Lease = contract.AppReply["layers"]["l3"]["leases"][number];

export function appEndpoints(context: OperationsContext): Endpoint[] {
  const { quota } = context;

  function clusterLimits(): ClusterLimits {
    const { cluster, fail_open_tokens } = context.live.current();
    return { capacity: cluster.capacity, rate: cluster.rate, failOpenTokens: fail_open_tokens };
  }

  async function reportsOf(apps: string[]): Promise<AppReport[][]> {
    return (await ifAvailable(context.ask({ kind: "apps", apps }))) ?? [];
  }

  function refusalOf(report: RefusalReport, app: AppLimits, cluster: ClusterLimits): contract.Refusal {
    const { at, node, retryAfterMs, dryRun, ...same } = report;
    return {
      timestamp: new Date(at).toISOString(),
      node_id: node,
      ...same,
      layer: layerOf(report.code),
      retry_after_ms: retryAfterMs,
      dry_run: dryRun,
      explanation: explainRefusal(report, app, cluster),
    };
  }

  /** The leases of an app according to the store, with the balances that our workers report. */
  async function leasesOf(app: string, reports: AppReport[]): Promise<Lease[] | undefined> {
    const balances = new Map(reports.map(({ node, balance }) => [node, balance]));
    const leases = await ifAvailable(
      quota.nodes().then((nodes) =>
        mapConcurrently(nodes, CONCURRENT, async ({ node, alive }) => {
          const own = (await quota.ledger(node)).apps.find((entry) => entry.app === app);
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

  return [
    admin("GET", "apps", {
      summary: "The configured apps, with their balances and request counters of this service.",
      query: contract.appsQuery,
      reply: contract.appsReply,
      async handle({ query: { offset, limit } }) {
        const all = context.apps();
        const page = all.slice(offset, offset + limit);
        const cluster = clusterLimits();
        const [reports, balances, l1] = await Promise.all([
          reportsOf(page.map(({ id }) => id)),
          ifAvailable(mapConcurrently(page, CONCURRENT, (app) => quota.inspect(app))),
          ifAvailable(quota.cluster()),
        ]);
        const totals = appTotals(reports);
        return ok({
          apps: page.map((app, i) => {
            const total = totals.get(app.id) ?? noTotals();
            const [last] = total.lastRefusals;
            return {
              app_id: app.id,
              ...limitsOf(app),
              l2_tokens: balances?.[i]?.tokens ?? null,
              debt: balances?.[i]?.debt ?? null,
              ...countsOf(total),
              last_refusal: last === undefined ? null : refusalOf(last, app, cluster),
            };
          }),
          total: all.length,
          cluster: clusterOf(l1, cluster),
          timestamp: context.timestamp(),
        });
      },
    }),

    admin("GET", "apps/{id}", {
      summary: "One app in detail: every layer, every lease, and why requests were refused.",
      reply: contract.appReply,
      others: unknownApp,
      async handle({ params: { id = "" } }) {
        const app = context.findApp(id);
        const cluster = clusterLimits();
        const [reports, balances, l1, workers] = await Promise.all([
          reportsOf([id]),
          ifAvailable(quota.inspect(app)),
          ifAvailable(quota.cluster()),
          context.reports(),
        ]);
        const leases = balances === undefined ? undefined : await leasesOf(id, reports.flat());
        const total = appTotals(reports).get(id) ?? noTotals();
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
        return ok({
          app_id: id,
          config: { ...limitsOf(app), borrow: app.borrow, on_store_failure: app.onStoreFailure },
          layers: {
            l1: clusterOf(l1, cluster),
            l2: balances === undefined ? null : bucketOf(balances),
            l3: {
              held: leases?.reduce((sum, { held }) => sum + held, 0) ?? null,
              recalling: context.recalled().some((app) => app === id || app === ALL_APPS),
              leases: leases ?? [],
            },
          },
          statistics: {
            ...countsOf(total),
            l3_hit_ratio: ratio(total.l3Hits, total.requests),
            refusals: total.refusals,
          },
          why,
          last_refusals: total.lastRefusals.map((report) => refusalOf(report, app, cluster)),
          timestamp: context.timestamp(),
        });
      },
    }),
  ];
}

function clusterOf(l1: { tokens: number } | undefined, { capacity, rate }: ClusterLimits) {
  return { tokens: l1?.tokens ?? null, capacity, rate };
}

function bucketOf({ tokens, debt, granted, spent, returned }: NonNullable<contract.AppReply["layers"]["l2"]>) {
  return { tokens, debt, granted, spent, returned };
}

function limitsOf({ guaranteed, burst, priority, dryRun }: AppLimits) {
  return { guaranteed, burst, priority, dry_run: dryRun };
}

function countsOf({ requests, allowed, refused, dryRunRefused }: ReturnType<typeof noTotals>) {
  return { requests, allowed, rejected: refused, dry_run_rejected: dryRunRefused };
}
