/** Requests, tokens and costs by app: for questions of tenants. */
import { dashboard, labelVariable, queries } from "../panels.js";

const { rate, max, sum, quantile, mean } = queries;
const APP = "=~$app";
const where = { app_id: APP };
const hits = rate("ratelimit_l3_hits_total", { by: ["app_id"], where });
const misses = rate("ratelimit_l3_misses_total", { by: ["app_id"], where });

export const applications = () =>
  dashboard({
    name: "applications",
    title: "applications",
    description: "Requests, refusals, tokens and costs of apps.",
    variables: [labelVariable("app", "ratelimit_requests_total", "app_id")],
    rows: [
      [
        "Requests",
        [
          {
            title: "Admitted requests",
            unit: "reqps",
            show: [[rate("ratelimit_requests_allowed_total", { by: ["app_id"], where }), "{{app_id}}"]],
          },
          {
            title: "Refused requests",
            unit: "reqps",
            show: [[rate("ratelimit_requests_rejected_total", { by: ["app_id"], where }), "{{app_id}}"]],
          },
          {
            title: "Refusals by reason",
            unit: "reqps",
            show: [[rate("ratelimit_refusals_total", { by: ["app_id", "reason"], where }), "{{app_id}} {{reason}}"]],
          },
          {
            title: "Requests by method",
            unit: "reqps",
            show: [[rate("ratelimit_requests_total", { by: ["app_id", "method"], where }), "{{app_id}} {{method}}"]],
          },
          {
            title: "Decision time by source, P99",
            description: "remote: the request waited for the store.",
            unit: "s",
            show: [[quantile(0.99, "ratelimit_check_latency_seconds", { by: ["source"], where }), "{{source}}"]],
          },
          {
            title: "Decision time, P99",
            unit: "s",
            show: [[quantile(0.99, "ratelimit_check_latency_seconds", { by: ["app_id"], where }), "{{app_id}}"]],
          },
        ],
      ],
      [
        "Tokens",
        [
          {
            title: "Tokens in the bucket (L2)",
            show: [[max("ratelimit_l2_tokens_available", { by: ["app_id"], where }), "{{app_id}}"]],
          },
          {
            title: "Tokens on leases of workers (L3)",
            show: [[sum("ratelimit_l3_tokens_local", { by: ["app_id"], where }), "{{app_id}}"]],
          },
          {
            title: "Decided at the edge",
            unit: "percentunit",
            max: 1,
            show: [[`${hits} / (${hits} + ${misses})`, "{{app_id}}"]],
          },
        ],
      ],
      [
        "Cost",
        [
          {
            title: "Mean cost of a request",
            unit: "short",
            show: [[mean("ratelimit_request_cost", { by: ["app_id"], where }), "{{app_id}}"]],
          },
          {
            title: "Cost by method, P99",
            show: [
              [quantile(0.99, "ratelimit_request_cost", { by: ["app_id", "method"], where }), "{{app_id}} {{method}}"],
            ],
          },
          {
            title: "Deviation of the actual cost, P90",
            description:
              "Relative to the estimate. Large values: sizes vary, and tokens are corrected after the response.",
            unit: "percentunit",
            show: [[quantile(0.9, "ratelimit_cost_deviation_ratio", { by: ["app_id"], where }), "{{app_id}}"]],
          },
          {
            title: "Transfers without tokens",
            description: "Bodies of unknown length that were delayed or aborted.",
            unit: "ops",
            show: [
              [rate("ratelimit_transfers_limited_total", { by: ["app_id", "action"], where }), "{{app_id}} {{action}}"],
            ],
          },
        ],
      ],
    ],
  });
