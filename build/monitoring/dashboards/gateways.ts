/** Workers, nginx and Envoy nodes: level, syncs, leases, event loop, overload. */
import { dashboard, labelVariable, queries } from "../panels.js";

const { rate, max, min, sum, quantile, mean, observed } = queries;
const where = { node_id: "=~$node" };
const byNode = { by: ["node_id"], where } as const;

export const gateways = () =>
  dashboard({
    name: "gateways",
    title: "gateways",
    description: "Workers, nginx and Envoy nodes.",
    variables: [labelVariable("node", "ratelimit_degradation_level", "node_id")],
    rows: [
      [
        "Nodes",
        [
          { title: "Degradation level", max: 3, show: [[max("ratelimit_degradation_level", byNode), "{{node_id}}"]] },
          {
            title: "Emergency known to data planes",
            max: 1,
            show: [[max("ratelimit_node_emergency", byNode), "{{node_id}}"]],
          },
          {
            title: "Data planes with another configuration",
            max: 1,
            show: [[max("ratelimit_node_config_differs", byNode), "{{node_id}}"]],
          },
          {
            title: "Tokens on leases",
            description: "Below 0: spent without the store.",
            show: [[sum("ratelimit_l3_tokens_local", byNode), "{{node_id}}"]],
          },
          {
            title: "Lowest share of local decisions of an app",
            description: "Since the start of the node.",
            unit: "percentunit",
            max: 1,
            show: [[min("ratelimit_l3_cache_hit_ratio", byNode), "{{node_id}}"]],
          },
          {
            title: "Free shared memory of nginx",
            unit: "bytes",
            show: [[min("ratelimit_shared_memory_free_bytes", byNode), "{{node_id}}"]],
          },
        ],
      ],
      [
        "Syncs",
        [
          {
            title: "Syncs of data planes",
            unit: "ops",
            show: [
              [rate("ratelimit_node_syncs_total", byNode), "{{node_id}}"],
              [rate("ratelimit_node_failed_syncs_total", byNode), "{{node_id}} failed"],
            ],
          },
          {
            title: "Time of a sync, P99",
            unit: "s",
            show: [[quantile(0.99, "ratelimit_sync_latency_seconds", { by: ["instance"] }), "{{instance}}"]],
          },
          {
            title: "Syncs by outcome",
            unit: "ops",
            show: [[observed("ratelimit_sync_latency_seconds", { by: ["outcome"] }), "{{outcome}}"]],
          },
          { title: "Apps per sync, mean", show: [[mean("ratelimit_sync_apps", { by: ["instance"] }), "{{instance}}"]] },
        ],
      ],
      [
        "Processes",
        [
          {
            title: "Event loop delay",
            description: "Above 0.5 s a process refuses new work.",
            unit: "s",
            show: [
              [max("ratelimit_event_loop_lag_p99_seconds", byNode), "{{node_id}} P99"],
              [max("ratelimit_event_loop_lag_seconds", byNode), "{{node_id}} mean"],
            ],
          },
          {
            title: "Refused share of new work because of overload",
            unit: "percentunit",
            max: 1,
            show: [[max("ratelimit_overload_refused_share", byNode), "{{node_id}}"]],
          },
          {
            title: "Refusals because of overload",
            unit: "reqps",
            show: [
              [
                rate("ratelimit_overload_refusals_total", { by: ["instance", "listener"] }),
                "{{instance}} {{listener}}",
              ],
            ],
          },
          {
            title: "Connections closed because there were too many",
            unit: "ops",
            show: [
              [
                rate("ratelimit_connections_shed_total", { by: ["instance", "listener", "reason"] }),
                "{{instance}} {{listener}} {{reason}}",
              ],
            ],
          },
          {
            title: "Data planes above their budget",
            unit: "reqps",
            show: [
              [
                rate("ratelimit_plane_budget_refusals_total", { by: ["instance", "budget"] }),
                "{{instance}} {{budget}}",
              ],
            ],
          },
          {
            title: "Errors in background work",
            unit: "ops",
            show: [[rate("ratelimit_background_errors_total", { by: ["instance", "task"] }), "{{instance}} {{task}}"]],
          },
          {
            title: "Failed TLS handshakes",
            unit: "ops",
            show: [
              [
                rate("ratelimit_tls_handshake_failures_total", { by: ["instance", "listener"] }),
                "{{instance}} {{listener}}",
              ],
            ],
          },
          {
            title: "Lost log lines",
            unit: "ops",
            show: [[rate("ratelimit_log_lines_lost_total", { by: ["instance"] }), "{{instance}}"]],
          },
          {
            title: "Replaced workers",
            unit: "ops",
            show: [
              [rate("ratelimit_worker_restarts_total", { by: ["instance", "reason"] }), "{{instance}} {{reason}}"],
            ],
          },
          {
            title: "Certificates expire in",
            unit: "s",
            show: [
              [
                `${min("ratelimit_certificate_expiry_timestamp_seconds", { by: ["instance", "section"] })} - time()`,
                "{{instance}} {{section}}",
              ],
            ],
          },
          {
            title: "Failed exports of metrics and traces",
            unit: "ops",
            show: [
              [rate("ratelimit_export_failures_total", { by: ["instance", "exporter"] }), "{{instance}} {{exporter}}"],
            ],
          },
          {
            title: "Version",
            show: [[sum("ratelimit_build_info", { by: ["instance", "version"] }), "{{instance}} {{version}}"]],
          },
        ],
      ],
    ],
  });
