/** The state of a cluster on one page: what to open first. */
import { dashboard, queries } from "../panels.js";

const { rate, max, min, sum, quantile, distinct } = queries;
const requests = rate("ratelimit_requests_total");
const hits = rate("ratelimit_l3_hits_total");
const certificate = min("ratelimit_certificate_expiry_timestamp_seconds");
const lastReload = max("ratelimit_config_last_reload_success_timestamp_seconds", { by: ["instance"] });

export const overview = () =>
  dashboard({
    name: "overview",
    title: "overview",
    description: "Requests, refusals, store and configuration of a cluster.",
    rows: [
      [
        "State",
        [
          { title: "Requests", unit: "reqps", stat: {}, show: [[requests, "requests"]] },
          {
            title: "Refused",
            unit: "percentunit",
            stat: { red: 0.2 },
            show: [[`${rate("ratelimit_requests_rejected_total")} / ${requests}`, "refused"]],
          },
          {
            title: "Degradation level",
            description: "0: store healthy. 1: slow. 2: very slow or errors. 3: decisions without the store.",
            stat: { red: 2 },
            show: [[max("ratelimit_degradation_level"), "level"]],
          },
          { title: "Emergency", stat: { red: 1 }, show: [[max("ratelimit_emergency_mode"), "emergency"]] },
          {
            title: "Bursts stopped",
            description: "1: 95 % of L1 are used, so apps get their own rates only. Not an emergency yet.",
            stat: { red: 1 },
            show: [[max("ratelimit_bursts_stopped"), "stopped"]],
          },
          { title: "Live nodes", stat: {}, show: [[max("ratelimit_live_nodes"), "live"]] },
          {
            title: "Dead nodes",
            description: "Went silent without leaving. Listed until their tokens are returned.",
            stat: { red: 1 },
            show: [[max("ratelimit_dead_nodes"), "dead"]],
          },
          {
            title: "Configurations in use",
            stat: { red: 2 },
            show: [[distinct("ratelimit_config_info", ["version"]), "versions"]],
          },
          {
            title: "Versions of Tollgate in use",
            stat: { red: 2 },
            show: [[distinct("ratelimit_build_info", ["version"]), "versions"]],
          },
          {
            title: "Next certificate expires in",
            unit: "s",
            stat: {},
            show: [[`${certificate} - time()`, "expires in"]],
          },
          {
            title: "Open connections",
            stat: {},
            show: [[sum("websocket_connections_active_total"), "connections"]],
          },
        ],
      ],
      [
        "Requests",
        [
          {
            title: "Requests by decision",
            unit: "reqps",
            show: [[rate("ratelimit_requests_total", { by: ["status"] }), "{{status}}"]],
          },
          {
            title: "Refusals by layer and reason",
            description:
              "L1: cluster. L2: app. L3: node. limit: one of limits. identity: the app is unknown. store: without the store.",
            unit: "reqps",
            show: [[rate("ratelimit_refusals_total", { by: ["layer", "reason"] }), "{{layer}} {{reason}}"]],
          },
          {
            title: "Decision time",
            unit: "s",
            show: [
              [quantile(0.99, "ratelimit_check_latency_seconds"), "P99"],
              [quantile(0.5, "ratelimit_check_latency_seconds"), "P50"],
            ],
          },
          {
            title: "Decided at the edge",
            description:
              "Share of decisions from a lease. Far below 95 %: apps are out of tokens, or leases are too small.",
            unit: "percentunit",
            max: 1,
            show: [[`${hits} / (${hits} + ${rate("ratelimit_l3_misses_total")})`, "local"]],
          },
          {
            title: "Requests by limit of limits",
            unit: "reqps",
            show: [[rate("ratelimit_limit_requests_total", { by: ["limit", "status"] }), "{{limit}} {{status}}"]],
          },
          {
            title: "Tokens of the cluster (L1)",
            show: [[max("ratelimit_l1_tokens_available", { by: ["cluster_id"] }), "{{cluster_id}}"]],
          },
        ],
      ],
      [
        "Shards",
        [
          {
            title: "Shards that reply",
            description: "Nothing with one shard, which is the cluster.",
            max: 1,
            show: [[min("ratelimit_shard_up", { by: ["shard"] }), "{{shard}}"]],
          },
          {
            title: "Tokens of a shard (L1)",
            show: [[max("ratelimit_shard_tokens_available", { by: ["shard"] }), "{{shard}}"]],
          },
          {
            title: "Share of the cluster's rate",
            unit: "percentunit",
            max: 1,
            show: [[max("ratelimit_shard_rate_share", { by: ["shard"] }), "{{shard}}"]],
          },
        ],
      ],
      [
        "Store",
        [
          {
            title: "Store latency, P99",
            unit: "s",
            show: [[quantile(0.99, "ratelimit_redis_latency_seconds", { by: ["command"] }), "{{command}}"]],
          },
          {
            title: "Store calls",
            unit: "ops",
            show: [[rate("ratelimit_redis_commands_total", { by: ["command", "outcome"] }), "{{command}} {{outcome}}"]],
          },
          {
            title: "Store errors",
            unit: "ops",
            show: [[rate("ratelimit_store_errors_total", { by: ["kind"] }), "{{kind}}"]],
          },
          {
            title: "Reconciliation",
            description: "Corrections are unusual, except after a failover that lost writes.",
            unit: "ops",
            show: [
              [rate("ratelimit_reconcile_rounds_total"), "rounds"],
              [rate("ratelimit_reconcile_corrections_total"), "corrected buckets"],
            ],
          },
          {
            title: "Tokens of dead nodes returned",
            show: [[rate("ratelimit_reconcile_recovered_tokens_total"), "tokens/s"]],
          },
        ],
      ],
      [
        "Configuration",
        [
          {
            title: "Services by configuration",
            show: [[sum("ratelimit_config_info", { by: ["version"] }), "{{version}}"]],
          },
          {
            title: "Reloads",
            unit: "ops",
            show: [[rate("ratelimit_config_reloads_total", { by: ["result"] }), "{{result}}"]],
          },
          {
            title: "Time since the last change",
            unit: "s",
            show: [[`time() - ${lastReload}`, "{{instance}}"]],
          },
        ],
      ],
    ],
  });
