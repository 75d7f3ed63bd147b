/** The data of each view, from the operations that also serve the admin API. */
import { mapConcurrently } from "../../shared/concurrently.js";
import { layerOf } from "../metrics/labels.js";
import { addCounts, reasonsOf } from "../metrics/refusal-counts.js";
import type { NodeReport } from "../metrics/reports.js";
import { appOf } from "../operations/apps.js";
import type { OperationsContext } from "../operations/context.js";
import { ifAvailable } from "../operations/deadline.js";
import { Rejected } from "../operations/endpoint.js";
import { explainRefusal } from "../operations/explain.js";
import { nodeName } from "../operations/health.js";
import { connectionsOf, statusOf } from "../operations/status.js";
import type { Activity } from "./activity.js";
import type { Flow, FlowApp, Nodes, Overview, PlaneNode, RecentRefusal, State } from "./contract.js";
import { createMeter, type Reading } from "./meter.js";

const BUSIEST = 12;
const FLOW_APPS = 8;
const FLOW_NODES = 16;
const CONCURRENT = 16;
const MEGABYTE = 1024 ** 2;

export interface ViewOptions {
  context: OperationsContext;
  activity: Activity;
  reading(workers: readonly NodeReport[]): Reading;
  clusterId: string;
}

type Holding = Awaited<ReturnType<OperationsContext["quota"]["holdings"]>>[number];

export function createViews({ context, activity, reading, clusterId }: ViewOptions) {
  const measure = createMeter();
  let current: { at: number; overview: Promise<Overview> } | undefined;
  const apps = new Map<string, { app: NonNullable<State["app"]>; until: number }>();
  let lastTokens: { tokens: number; at: number } | undefined;

  async function clusterBucket(): Promise<Overview["cluster"]> {
    const { capacity, rate } = context.live.current().cluster;
    const l1 = await ifAvailable(context.quota.cluster());
    lastTokens = l1 === undefined ? undefined : { tokens: l1.tokens, at: performance.now() };
    return { id: clusterId, tokens: l1?.tokens ?? null, held: l1?.held ?? null, capacity, rate };
  }

  async function collectOverview(): Promise<Overview> {
    const [status, reports, active, cluster, facts] = await Promise.all([
      statusOf(context),
      context.reports(),
      context.ask({ kind: "activity" }),
      clusterBucket(),
      context.storeFacts(),
    ]);
    const now = reading(reports);
    const rates = measure(now) ?? null;
    activity.update(active, now.atMs);
    const { nodes, ...others } = status;
    const refusals = { ...now.planes.refusals };
    const dryRunRefusals = { ...now.planes.dryRunRefusals };
    const connectionRefusals: Record<string, number> = { ...now.primary.connectionRefusals };
    for (const one of reports) {
      addCounts(refusals, one.refusals);
      addCounts(dryRunRefusals, one.dryRunRefusals);
      addCounts(connectionRefusals, one.connectionRefusals);
    }
    const alive = nodes.filter((node) => node.alive).length;
    return {
      status: others,
      nodes: { alive, silent: nodes.length - alive, held: nodes.reduce((sum, { held }) => sum + held, 0) },
      rates,
      refusals: reasonsOf(refusals, dryRunRefusals),
      connection_refusals: Object.entries(connectionRefusals)
        .map(([code, total]) => ({ code, total }))
        .sort((one, other) => other.total - one.total),
      store: {
        kind: context.store.kind,
        answers: facts !== undefined,
        latency_ms: facts === undefined ? null : Math.round(facts.latencyMs * 1000) / 1000,
        warnings: facts?.warnings ?? [],
        errors: reports.reduce((sum, { storeErrors }) => sum + storeErrors, now.primary.storeErrors),
      },
      cluster,
      config_versions: [...new Set([context.live.version(), ...reports.map(({ configVersion }) => configVersion)])],
      config_error: context.live.lastError() ?? null,
      busiest: activity.busiest(BUSIEST),
      apps_total: context.apps().length,
      recent_refusals: recentRefusals(),
    };
  }

  function recentRefusals(): RecentRefusal[] {
    const { cluster, fail_open_tokens } = context.live.current();
    const limits = { capacity: cluster.capacity, rate: cluster.rate, failOpenTokens: fail_open_tokens };
    return activity.recentRefusals().map((refusal) => {
      const { at, app, node, code, method, cost, limit, limitName, retryAfterMs, dryRun } = refusal;
      const configured = context.apps().find(({ id }) => id === app);
      return {
        ...{ at, app_id: app, node_id: node, code, layer: layerOf(code, limitName), method, cost, limit },
        limit_name: limitName ?? null,
        retry_after_ms: retryAfterMs,
        dry_run: dryRun,
        explanation: configured === undefined ? "" : explainRefusal(refusal, configured, limits),
      };
    });
  }

  /** One collection for all views of the same second. */
  function overview(): Promise<Overview> {
    const at = performance.now();
    if (current === undefined || at - current.at > 500) current = { at, overview: collectOverview() };
    return current.overview;
  }

  async function flow({ cluster, busiest }: Overview): Promise<Flow> {
    const shown = busiest.slice(0, FLOW_APPS);
    const byId = new Map(context.apps().map((app) => [app.id, app]));
    const holdings = (await ifAvailable(context.quota.holdings())) ?? [];
    const largest = holdings.filter(({ held }) => held > 0).sort((one, other) => other.held - one.held);
    const nodes = largest.slice(0, FLOW_NODES);
    const [ledgers, balances] = await Promise.all([
      ifAvailable(mapConcurrently(nodes, CONCURRENT, ({ node }) => context.quota.ledger(node))),
      ifAvailable(
        mapConcurrently(shown, CONCURRENT, async ({ app_id }) => {
          const app = byId.get(app_id);
          return app === undefined ? undefined : context.quota.inspect(app);
        }),
      ),
    ]);
    const apps = shown.map((busy, i): FlowApp => {
      const app = byId.get(busy.app_id);
      const leases = (ledgers ?? []).map((ledger) => {
        const own = ledger.apps.find((one) => one.app === busy.app_id);
        return own === undefined ? 0 : Math.max(own.granted - own.spent - own.returned, 0);
      });
      return {
        ...busy,
        guaranteed: app?.guaranteed ?? 0,
        burst: app?.burst ?? 0,
        tokens: balances?.[i]?.tokens ?? null,
        debt: balances?.[i]?.debt ?? null,
        held: leases.reduce((sum, tokens) => sum + tokens, 0),
        recalled: context.isRecalled(busy.app_id),
        leases,
      };
    });
    return {
      cluster,
      apps,
      nodes: nodes.map(({ node, alive, held }) => ({ node_id: nodeName(node), alive, held })),
      more_nodes: largest.length - nodes.length,
    };
  }

  async function nodes(): Promise<Nodes> {
    const [holdings, reports] = await Promise.all([ifAvailable(context.quota.holdings()), context.reports()]);
    const workers = new Map(reports.map((report) => [report.node, report]));
    const planes = new Map(context.planes.recent().map(({ node, gauges }) => [node, gauges]));
    const listed = new Map<string, PlaneNode>();
    for (const holding of holdings ?? []) {
      const name = nodeName(holding.node);
      const known = listed.get(name);
      // A restarted node has a new epoch; the old one is listed until it is reconciled.
      if (known?.alive !== true || holding.alive) listed.set(name, describe(name, holding, known?.held ?? 0));
      else known.held += holding.held;
    }
    for (const name of [...workers.keys(), ...planes.keys()]) {
      if (!listed.has(name)) listed.set(name, describe(name, undefined, 0));
    }
    return { nodes: [...listed.values()], partial: holdings === undefined };

    function describe(name: string, holding: Holding | undefined, more: number): PlaneNode {
      const worker = workers.get(name);
      const plane = planes.get(name);
      const free = plane?.memory_free_bytes;
      return {
        node_id: name,
        kind: worker !== undefined ? "node" : planeKind(plane),
        alive: holding?.alive ?? true,
        silent_ms: holding?.silentMs ?? 0,
        held: (holding?.held ?? 0) + more,
        level: worker?.level ?? plane?.level ?? null,
        emergency: worker?.emergency ?? (plane?.emergency === undefined ? null : plane.emergency > 0),
        config_version: worker?.configVersion ?? planeVersion(plane?.outdated),
        slots: worker?.slots ?? plane?.connections ?? null,
        memory_used_mb: worker === undefined ? null : Math.round(worker.heapUsedBytes / MEGABYTE),
        memory_free_mb:
          worker !== undefined
            ? Math.round((worker.heapLimitBytes - worker.heapUsedBytes) / MEGABYTE)
            : free === undefined
              ? null
              : Math.round(free / MEGABYTE),
        syncs: worker?.syncs ?? plane?.syncs ?? null,
        failed_syncs: worker?.failedSyncs ?? plane?.failed_syncs ?? null,
      };
    }
  }

  /** Envoy says what it is. */
  function planeKind(plane: Record<string, number> | undefined): PlaneNode["kind"] {
    if (plane === undefined) return "";
    return plane.envoy === 1 ? "envoy" : "nginx";
  }

  /** Data planes say only whether they have the configuration of this service. */
  function planeVersion(outdated: number | undefined): string | null {
    if (outdated === undefined) return null;
    return outdated === 0 ? context.live.version() : "outdated";
  }

  /** With many nodes, reading all leases takes long: then less often than every second, at most a twentieth of the time. */
  async function appState(id: string): Promise<NonNullable<State["app"]>> {
    const started = performance.now();
    const known = apps.get(id);
    if (known !== undefined && started < known.until) return known.app;
    try {
      const app = await appOf(context, id);
      const ended = performance.now();
      apps.clear();
      apps.set(id, { app, until: ended + (ended - started) * 19 });
      return app;
    } catch (error) {
      if (error instanceof Rejected) return { missing: id };
      throw error;
    }
  }

  return {
    /** Undefined if it was not read recently. */
    l1Tokens: () =>
      lastTokens !== undefined && performance.now() - lastTokens.at < 3_000 ? lastTokens.tokens : undefined,
    /** `view`: the name of a view, or `app/` and the id of an app. */
    async collect(view: string): Promise<State> {
      const common = await overview();
      if (view === "flow") return { overview: common, flow: await flow(common) };
      if (view === "connections") return { overview: common, connections: await connectionsOf(context) };
      if (view === "nodes") return { overview: common, nodes: await nodes() };
      if (view.startsWith("app/")) {
        const id = view.slice(4);
        const app = await appState(id);
        const { requests = 0, refused = 0, dry_run = 0 } = activity.of(id) ?? {};
        return { overview: common, app, traffic: { requests, refused, dry_run } };
      }
      return { overview: common };
    },
  };
}
