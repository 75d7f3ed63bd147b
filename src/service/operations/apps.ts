/** The apps: balances of every layer, leases, what became of their requests, and why some were refused. */
import type { AppLimits } from "../../core/limits.js";
import type { AppReply, AppsQuery, AppsReply, Refusal } from "../control/contract/contract.js";
import { answer, type Reply } from "../control/endpoint.js";
import { layerOf } from "../metrics/labels.js";
import type { AppReport, RefusalReport } from "../metrics/reports.js";
import { ifAnswered, inTurns } from "./deadline.js";
import { explainApp, explainRefusal, type Surroundings } from "./explain.js";
import { nodeOf } from "./health.js";
import type { Knowledge } from "./knowledge.js";
import { appTotals, noTotals, part } from "./statistics.js";
import { findApp, noSuchApp } from "./unknown-app.js";

const AT_ONCE = 32;

type Lease = AppReply["layers"]["l3"]["leases"][number];

export function appOperations(know: Knowledge) {
  const { deps } = know;

  function surroundings(): Surroundings {
    const { cluster, fail_open_tokens } = deps.live.current();
    return { cluster: { capacity: cluster.capacity, rate: cluster.rate }, failOpenTokens: fail_open_tokens };
  }

  async function reportsOf(apps: string[]): Promise<AppReport[][]> {
    return (await ifAnswered(deps.ask({ kind: "apps", apps }))) ?? [];
  }

  function refusalOf(report: RefusalReport, app: AppLimits, around: Surroundings): Refusal {
    const { at, node, retryAfterMs, dryRun, ...same } = report;
    return {
      timestamp: new Date(at).toISOString(),
      node_id: node,
      ...{ ...same, layer: layerOf(report.code), retry_after_ms: retryAfterMs, dry_run: dryRun },
      explanation: explainRefusal(report, app, around),
    };
  }

  /** Who holds how much of the app, by the store's books; a worker's own word stands beside it. */
  async function leasesOf(app: string, reports: AppReport[]): Promise<Lease[] | undefined> {
    const balances = new Map(reports.map(({ node, balance }) => [node, balance]));
    const leases = await ifAnswered(
      deps.quota.nodes().then((nodes) =>
        inTurns(nodes, AT_ONCE, async ({ node, alive }) => {
          const own = (await deps.quota.ledger(node)).apps.find((entry) => entry.app === app);
          if (own === undefined) return [];
          const { granted, spent, returned } = own;
          const held = Math.max(granted - spent - returned, 0);
          const node_id = nodeOf(node);
          const balance = alive ? (balances.get(node_id) ?? null) : null;
          // A life that is over and holds nothing is history.
          return alive || held > 0 ? [{ node_id, alive, held, granted, spent, returned, balance }] : [];
        }),
      ),
    );
    return leases?.flat();
  }

  return {
    async apps({ offset, limit }: AppsQuery): Promise<Reply<AppsReply>> {
      const all = deps.apps();
      const some = all.slice(offset, offset + limit);
      const around = surroundings();
      const [answers, balances] = await Promise.all([
        reportsOf(some.map(({ id }) => id)),
        ifAnswered(inTurns(some, AT_ONCE, (app) => deps.quota.inspect(app))),
      ]);
      const totals = appTotals(answers);
      const { cluster } = around;
      return answer({
        apps: some.map((app, i) => {
          const { requests, allowed, refused, dryRunRefused, lastRefusals } = totals.get(app.id) ?? noTotals();
          const { id: app_id, guaranteed, burst, priority, dryRun: dry_run } = app;
          const last = lastRefusals[0];
          return {
            ...{ app_id, guaranteed, burst, priority, dry_run },
            ...{ l2_tokens: balances?.[i]?.tokens ?? null, debt: balances?.[i]?.debt ?? null },
            ...{ requests, allowed, rejected: refused, dry_run_rejected: dryRunRefused },
            last_refusal: last === undefined ? null : refusalOf(last, app, around),
          };
        }),
        total: all.length,
        cluster: { tokens: balances?.[0]?.clusterTokens ?? null, ...cluster },
        timestamp: know.timestamp(),
      });
    },

    async app(id: string): Promise<Reply<AppReply>> {
      const app = findApp(deps.apps(), id);
      if (app === undefined) return noSuchApp(deps.apps(), id);
      const around = surroundings();
      const [answers, balances, workers] = await Promise.all([
        reportsOf([id]),
        ifAnswered(deps.quota.inspect(app)),
        know.reports(),
      ]);
      const leases = balances === undefined ? undefined : await leasesOf(id, answers.flat());
      const total = appTotals(answers).get(id) ?? noTotals();
      const last = total.lastRefusals[0];
      const { active, leftMs } = deps.coordinator.emergency();
      const why = explainApp(
        app,
        {
          ...{ balances, emergency: { active, leftMs }, level: know.level(workers) },
          last: last === undefined ? undefined : { refusal: last, agoMs: Math.max(know.now() - last.at, 0) },
        },
        around,
      );
      const { guaranteed, burst, priority, borrow, onStoreFailure, dryRun } = app;
      const { requests, allowed, refused, dryRunRefused, l3Hits, refusals } = total;
      return answer({
        app_id: id,
        config: { guaranteed, burst, priority, borrow, on_store_failure: onStoreFailure, dry_run: dryRun },
        layers: {
          l1: { tokens: balances?.clusterTokens ?? null, ...around.cluster },
          l2: balances === undefined ? null : l2Of(balances),
          l3: { held: leases?.reduce((sum, { held }) => sum + held, 0) ?? null, leases: leases ?? [] },
        },
        statistics: {
          ...{ requests, allowed, rejected: refused, dry_run_rejected: dryRunRefused },
          ...{ l3_hit_ratio: part(l3Hits, requests), refusals },
        },
        why,
        last_refusals: total.lastRefusals.map((report) => refusalOf(report, app, around)),
        timestamp: know.timestamp(),
      });
    },
  };
}

function l2Of({ tokens, debt, granted, spent, returned }: NonNullable<AppReply["layers"]["l2"]>) {
  return { tokens, debt, granted, spent, returned };
}
