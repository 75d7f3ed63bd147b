/** Every metric there is: its type, its labels and what it means. `docs/METRICS.md` lists the same; a test compares the two. */

/** What has no type is a gauge whose name, which others fixed, ends like that of a counter. */
export type MetricType = "counter" | "gauge" | "histogram" | "untyped";

export interface MetricDefinition {
  type: MetricType;
  labels: readonly string[];
  help: string;
}

const counter = (labels: readonly string[], help: string) => ({ type: "counter", labels, help }) as const;
const gauge = (labels: readonly string[], help: string) => ({ type: "gauge", labels, help }) as const;
const histogram = (labels: readonly string[], help: string) => ({ type: "histogram", labels, help }) as const;

export const metrics = {
  ratelimit_requests_total: counter(
    ["app_id", "method", "status"],
    "Requests by what was decided: allowed, rejected, or dry_run_rejected for those that passed only on a dry run.",
  ),
  ratelimit_requests_allowed_total: counter(["app_id"], "Requests that passed, on a dry run or not."),
  ratelimit_requests_rejected_total: counter(["app_id"], "Requests that were refused."),
  ratelimit_request_cost: histogram(["app_id", "method"], "Tokens that requests were priced at when they came."),
  ratelimit_check_latency_seconds: histogram(
    ["app_id", "source"],
    "Time of a decision: local where it was made at once, remote where it waited for the store.",
  ),
  ratelimit_refusals_total: counter(
    ["app_id", "layer", "reason"],
    "Refused requests by layer (L1, L2, L3, emergency, store, identity) and reason.",
  ),
  ratelimit_cost_deviation_ratio: histogram(
    ["app_id"],
    "How far the actual cost of exchanges was from the estimate, as a part of the estimate.",
  ),

  ratelimit_l1_tokens_available: gauge(["cluster_id"], "Tokens in the bucket of the cluster."),
  ratelimit_l2_tokens_available: gauge(["app_id"], "Tokens in the bucket of the app."),
  ratelimit_l3_tokens_local: gauge(
    ["app_id", "node_id"],
    "Tokens on the lease of a node; below zero where some were spent without the store.",
  ),
  ratelimit_l3_cache_hit_ratio: gauge(
    ["app_id", "node_id"],
    "The part of decisions that a node made without asking the store, since it began.",
  ),
  ratelimit_l3_hits_total: counter(["app_id"], "Decisions made from the local lease or a remembered refusal."),
  ratelimit_l3_misses_total: counter(["app_id"], "Decisions for which the local lease did not suffice."),

  ratelimit_emergency_mode: gauge(["cluster_id"], "1 while there is an emergency."),
  ratelimit_degradation_level: gauge(["node_id"], "How badly the store answers a node, from 0 to 3."),
  ratelimit_live_nodes: gauge([], "Nodes that are alive as the store knows them."),
  ratelimit_node_emergency: gauge(["node_id"], "1 while a data plane elsewhere knows of an emergency."),
  ratelimit_node_syncs_total: counter(["node_id"], "Messages of a data plane elsewhere to the services."),
  ratelimit_node_failed_syncs_total: counter(["node_id"], "Those of them that no service answered."),
  ratelimit_shared_memory_free_bytes: gauge(["node_id"], "Free pages of the memory that the workers of nginx share."),

  ratelimit_redis_commands_total: counter(
    ["command", "outcome"],
    "Calls of the store, of whatever kind it is, by script and by how they ended.",
  ),
  ratelimit_redis_latency_seconds: histogram(["command"], "Time of calls of the store."),
  ratelimit_store_errors_total: counter(["kind"], "Calls of the store that failed."),
  ratelimit_sync_apps: histogram([], "Apps in one message of a node to the store; 0 for a sign of life."),
  ratelimit_sync_latency_seconds: histogram(["outcome"], "Time from such a message to its answer."),

  ratelimit_reconcile_corrections_total: counter([], "Buckets that this service corrected."),
  ratelimit_reconcile_rounds_total: counter([], "Rounds in which this service reconciled all apps."),
  ratelimit_reconcile_recovered_tokens_total: counter([], "Tokens of dead nodes that this service put back."),

  ratelimit_config_info: gauge(["version"], "1 for the version of the configuration that is in force."),
  ratelimit_config_reloads_total: counter(["result"], "Reloads of the configuration: reloaded or refused."),
  ratelimit_config_last_reload_success_timestamp_seconds: gauge(
    [],
    "When the configuration in force was loaded, in seconds since 1970.",
  ),

  ratelimit_event_loop_lag_seconds: gauge(["node_id"], "Mean delay of the event loop since the last scrape."),
  ratelimit_event_loop_lag_p99_seconds: gauge(
    ["node_id"],
    "The delay of the event loop that 99 of 100 turns stayed below since the last scrape.",
  ),
  ratelimit_build_info: gauge(["version"], "1 for the version of Tollgate."),

  websocket_connections_active_total: {
    type: "untyped",
    labels: [],
    help: "Connections through this service and the data planes it hears of, open now. A gauge: the name is older than the rule.",
  },
  websocket_connections_rejected_total: counter([], "Connections that this service refused."),
  websocket_proxy_instance: gauge(
    ["proxy_id"],
    "Connections that a proxy of this service, or a data plane it hears of, holds open.",
  ),
  websocket_pod_connections: gauge(["upstream", "pod"], "Connections of this service to a pod."),
  websocket_pod_limit: gauge(["upstream", "pod"], "Connections that a pod takes, of all services together."),
  websocket_refusals_total: counter(["reason"], "Refused connections by reason."),
  websocket_acquire_seconds: histogram([], "Time in which slots were taken or refused."),
  websocket_leases_lost_total: counter([], "Connections whose lease was gone when it should have been renewed."),
  websocket_leases_reclaimed_total: counter([], "Connections that got a lease again after that, or at last."),
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof metrics;
