/** All metrics with type, labels, help text, buckets and source. A test compares them with `docs/METRICS.md`. */
import { COST_BOUNDS } from "../../core/cost.js";
import { isLiftedByDryRun } from "../../core/refusals.js";
import { WHOLE_SHARE } from "../../core/shard.js";
import { budgetNames } from "../../shared/access/plane-budgets.js";
import { backgroundTasks } from "../../shared/background.js";
import { shedReasons } from "../../shared/connection-limits.js";
import { storeErrorKinds } from "../../store/errors.js";
import { connectionReasons, exporters, listeners, syncOutcomes } from "./labels.js";
import { counter, each, gauge, histogram, type MetricDefinition, type Reading, untyped } from "./metric-definition.js";
import type { AppBalances, ShardState, StoreState } from "./store-state.js";

const checkBoundsSeconds = [0.000005, 0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1];
/** For calls over a network. */
const callBoundsSeconds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];

function ofApps({ apps }: StoreState, read: (app: AppBalances) => number): Reading[] {
  return Array.from(apps, ([app, balances]) => [read(balances), app]);
}

/** Only shards that replied. */
function ofShards({ shards }: StoreState, read: (shard: ShardState) => number): Reading[] {
  return shards.flatMap((state, shard): Reading[] => (state === undefined ? [] : [[read(state), String(shard)]]));
}

const definitions = {
  ratelimit_requests_total: counter(
    ["app_id", "method", "status"],
    "Requests by decision: allowed, rejected, or dry_run_rejected (admitted only because of a dry run).",
  ),
  ratelimit_requests_allowed_total: counter(["app_id"], "Admitted requests, including dry runs."),
  ratelimit_requests_rejected_total: counter(["app_id"], "Refused requests."),
  ratelimit_request_cost: histogram(["app_id", "method"], "Estimated cost of requests in tokens.", {
    bounds: COST_BOUNDS,
  }),
  ratelimit_check_latency_seconds: histogram(
    ["app_id", "source"],
    "Duration of decisions: local if immediate, remote if it waited for the store. nginx and Envoy measure some of them.",
    { bounds: checkBoundsSeconds },
  ),
  ratelimit_refusals_total: counter(
    ["app_id", "layer", "reason"],
    "Refused requests by layer (L1, L2, L3, emergency, store, identity, or limit: one of `limits`) and reason, without dry runs.",
  ),
  ratelimit_limit_requests_total: counter(
    ["limit", "status"],
    "Requests by limit of `limits`: allowed, rejected, or dry_run_rejected. A rejected request counts for each limit that refused it.",
  ),
  ratelimit_cost_deviation_ratio: histogram(
    ["app_id"],
    "Deviation of the actual cost from the estimate, relative to the estimate.",
    { bounds: [0, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10] },
  ),
  ratelimit_transfers_limited_total: counter(
    ["app_id", "action"],
    "Transfers of unknown length without tokens for their bytes: delayed (once each) or aborted.",
  ),

  ratelimit_l1_tokens_available: gauge(["cluster_id"], "Tokens in the bucket of the cluster.", {
    read: ({ store, clusterId }) => store.cluster && [[store.cluster.tokens, clusterId]],
  }),
  ratelimit_shard_up: gauge(
    ["shard"],
    "1 if the shard replied to this service. Only with several shards, also below.",
    { read: ({ store }) => store.shards.map((state, shard) => [state === undefined ? 0 : 1, String(shard)]) },
  ),
  ratelimit_shard_tokens_available: gauge(["shard"], "Tokens in the shard's part of the bucket of the cluster.", {
    read: ({ store }) => ofShards(store, ({ tokens }) => tokens),
  }),
  ratelimit_shard_rate_share: gauge(["shard"], "The shard's share of the rate of the cluster, from 0 to 1.", {
    read: ({ store }) => ofShards(store, ({ share }) => share.rate / WHOLE_SHARE),
  }),
  ratelimit_l2_tokens_available: gauge(["app_id"], "Tokens in the bucket of the app.", {
    read: ({ store }) => ofApps(store, ({ tokens }) => tokens),
  }),
  ratelimit_l3_tokens_local: gauge(
    ["app_id", "node_id"],
    "Tokens on the lease of a node; negative if tokens were spent without the store.",
  ),
  ratelimit_l3_cache_hit_ratio: gauge(
    ["app_id", "node_id"],
    "Share of decisions that a node made without a sync since it started.",
  ),
  ratelimit_l3_hits_total: counter(["app_id"], "Decisions made from the local lease or a cached refusal."),
  ratelimit_l3_misses_total: counter(["app_id"], "Decisions for which the local lease was not sufficient."),

  ratelimit_emergency_mode: gauge(["cluster_id"], "1 during an emergency.", {
    read: ({ coordinator, clusterId }) => [[coordinator.emergency().active ? 1 : 0, clusterId]],
  }),
  ratelimit_bursts_stopped: gauge(
    ["cluster_id"],
    "1 while bursts and borrowing are stopped: the first stage of an automatic emergency.",
    { read: ({ coordinator, clusterId }) => [[coordinator.emergency().burstsStopped ? 1 : 0, clusterId]] },
  ),
  ratelimit_degradation_level: gauge(
    ["node_id"],
    "Degradation level of a node, from 0 (store healthy) to 3 (store unavailable).",
    { nodeGauge: "level" },
  ),
  ratelimit_live_nodes: gauge([], "Live nodes according to the store.", {
    read: ({ store }) => store.nodes?.filter(({ alive }) => alive).length,
  }),
  ratelimit_dead_nodes: gauge([], "Nodes that went silent without leaving, until their tokens are returned.", {
    read: ({ store }) => store.nodes?.filter(({ alive }) => !alive).length,
  }),
  ratelimit_node_emergency: gauge(["node_id"], "1 while a data plane is in emergency mode.", {
    nodeGauge: "emergency",
  }),
  ratelimit_node_config_differs: gauge(
    ["node_id"],
    "1 while a data plane uses another configuration than the service that it reports to.",
    { nodeGauge: "outdated" },
  ),
  ratelimit_node_syncs_total: counter(["node_id"], "Sync messages sent by a data plane.", { nodeGauge: "syncs" }),
  ratelimit_node_failed_syncs_total: counter(["node_id"], "Sync messages of a data plane that got no reply.", {
    nodeGauge: "failed_syncs",
  }),
  ratelimit_shared_memory_free_bytes: gauge(
    ["node_id"],
    "Free memory pages in the dictionary that nginx workers share, in bytes.",
    { nodeGauge: "memory_free_bytes" },
  ),

  ratelimit_redis_commands_total: counter(
    ["command", "outcome"],
    "Store calls by command and outcome, for every kind of store.",
  ),
  ratelimit_redis_latency_seconds: histogram(["command"], "Duration of store calls.", { bounds: callBoundsSeconds }),
  ratelimit_store_errors_total: counter(["kind"], "Failed store calls.", { initial: each(storeErrorKinds) }),
  ratelimit_sync_apps: histogram([], "Apps per sync message of a node; 0 for a heartbeat.", {
    bounds: [0, 1, 2, 5, 10, 25, 50, 100, 200, 400],
  }),
  ratelimit_sync_latency_seconds: histogram(["outcome"], "Time from a sync message to its reply.", {
    bounds: callBoundsSeconds,
    initial: each(syncOutcomes),
  }),

  ratelimit_reconcile_corrections_total: counter([], "Buckets corrected by this service.", {
    read: ({ coordinator }) => coordinator.stats().corrections,
  }),
  ratelimit_reconcile_rounds_total: counter([], "Reconciliation rounds over all apps by this service.", {
    read: ({ coordinator }) => coordinator.stats().rounds,
  }),
  ratelimit_reconcile_recovered_tokens_total: counter([], "Tokens of dead nodes returned by this service.", {
    read: ({ coordinator }) => coordinator.stats().recoveredTokens,
  }),

  ratelimit_config_info: gauge(["version"], "1 for the version of the active configuration.", {
    read: ({ config }) => [[1, config.version()]],
  }),
  ratelimit_config_reloads_total: counter(["result"], "Configuration reloads by result: reloaded or refused.", {
    initial: each(["reloaded", "refused"]),
  }),
  ratelimit_config_last_reload_success_timestamp_seconds: gauge(
    [],
    "Unix time at which the active configuration was loaded.",
    { read: ({ config }) => config.loadedAtMs() / 1000 },
  ),

  ratelimit_event_loop_lag_seconds: gauge(["node_id"], "Mean event loop delay since the last scrape."),
  ratelimit_event_loop_lag_p99_seconds: gauge(
    ["node_id"],
    "99th percentile of the event loop delay since the last scrape.",
  ),
  ratelimit_overload_refused_share: gauge(
    ["node_id"],
    "Share of new work that a process refuses because it is overloaded; 0 if it is not.",
  ),
  ratelimit_overload_refusals_total: counter(
    ["listener"],
    "New work that was refused with `overloaded`, by listener: gateway, envoy or control.",
    { initial: each(listeners) },
  ),
  ratelimit_connections_shed_total: counter(
    ["listener", "reason"],
    "Connections closed because there were too many: new ones at the limit of their client (client) or of the process (total), and idle ones in favour of new ones (idle).",
    { initial: listeners.flatMap((listener) => shedReasons.map((reason) => [listener, reason])) },
  ),
  ratelimit_background_errors_total: counter(
    ["task"],
    "Errors in work that no caller waits for, by task: timer, message (between processes), report or rejection. Each is logged.",
    { initial: each(backgroundTasks) },
  ),
  ratelimit_tls_handshake_failures_total: counter(
    ["listener"],
    "Failed TLS handshakes and rejected client certificates, by listener: gateway, envoy or control.",
    { initial: each(listeners) },
  ),
  ratelimit_log_lines_lost_total: counter(
    [],
    "Log lines that could not be written, because standard output is full, closed or read too slowly.",
  ),
  ratelimit_worker_restarts_total: counter(
    ["reason"],
    "Workers that were replaced: crashed, or unresponsive and therefore killed.",
    { initial: each(["crashed", "unresponsive"]) },
  ),
  ratelimit_certificate_expiry_timestamp_seconds: gauge(
    ["section"],
    "Unix time at which the own certificate of a TLS section expires, or the first one in its file.",
  ),
  ratelimit_export_failures_total: counter(
    ["exporter"],
    "Failed pushes of metrics or traces, by exporter: statsd, graphite, otlp_metrics or otlp_traces.",
    { initial: each(exporters) },
  ),
  ratelimit_build_info: gauge(["version"], "1 for the running version of Tollgate.", {
    read: ({ version }) => [[1, version]],
  }),

  websocket_connections_active_total: untyped(
    [],
    "Open connections of this service and the data planes that report to it. A gauge, despite its name.",
  ),
  websocket_connections_rejected_total: counter([], "Connections refused by this service.", {
    planeCounters: { slots_refused_store_unavailable: [], slots_refused_other: [] },
  }),
  websocket_proxy_instance: gauge(
    ["proxy_id"],
    "Open connections of a proxy of this service or of a data plane that reports to it.",
    { nodeGauge: "connections" },
  ),
  websocket_pod_connections: gauge(
    ["route", "upstream", "pod"],
    "Open connections on a route to a pod, of this service and the data planes that report to it.",
  ),
  websocket_pod_limit: gauge(
    ["route", "upstream", "pod"],
    "Connection limit of a route and pod, for all services together.",
  ),
  websocket_pod_slots: gauge(
    ["route", "upstream", "pod"],
    "Slots of a route on a pod according to the store, of all services and data planes together.",
    { read: ({ store }) => store.slots.map(({ route, upstream, pod, slots }) => [slots, route, upstream, pod]) },
  ),
  ratelimit_plane_budget_refusals_total: counter(
    ["budget"],
    "Messages and names of data planes that exceeded the budget of their plane: nodes, proxies, pods, values, slots or bytes.",
    { initial: each(budgetNames) },
  ),
  websocket_refusals_total: counter(["reason"], "Refused connections by reason.", {
    initial: each(connectionReasons),
    planeCounters: { slots_refused_store_unavailable: ["store_unavailable"], slots_refused_other: ["other"] },
  }),
  websocket_dry_run_refusals_total: counter(
    ["reason"],
    "Connections that were admitted without a slot because of a dry run, by the reason of the refusal.",
    {
      initial: each(connectionReasons.filter(isLiftedByDryRun)),
      planeCounters: { slots_dry_run_store_unavailable: ["store_unavailable"] },
    },
  ),
  websocket_acquire_seconds: histogram([], "Duration of slot acquisition.", { bounds: callBoundsSeconds }),
  websocket_leases_lost_total: counter([], "Connections whose lease was lost before its renewal.", {
    planeCounters: { slots_lost: [] },
  }),
  websocket_leases_reclaimed_total: counter(
    [],
    "Connections that got a lease again, or their first one after the store was unavailable.",
    { planeCounters: { slots_reclaimed: [] } },
  ),
} satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof definitions;
export type MetricLabel<Name extends MetricName> = (typeof definitions)[Name]["labels"][number];

export const metrics: Readonly<Record<MetricName, MetricDefinition>> = definitions;
export const metricList = Object.entries(definitions) as [MetricName, MetricDefinition][];
