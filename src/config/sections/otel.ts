/** Options of the export to OpenTelemetry. */
import {
  amount,
  flag,
  HOUR_MS,
  httpUrl,
  milliseconds,
  optional,
  secretHeader,
  section,
  whole,
  words,
} from "../values.js";

export const otel = section({
  endpoint: optional(httpUrl(), "no export").describe(
    "OTLP/HTTP endpoint of a collector, for example `http://127.0.0.1:4318`; `/v1/metrics` and `/v1/traces` are appended.",
  ),
  authorization: secretHeader().default("").describe("Value of the header Authorization, for example `Bearer …`."),
  service_name: words(100).default("tollgate").describe("The attribute `service.name`."),
  metrics: flag().default(true).describe("Whether metrics are exported."),
  metrics_interval_ms: milliseconds(1_000, HOUR_MS).default(60_000).describe("Time between two exports of metrics."),
  traces: flag().default(true).describe("Whether requests through the gateway are traced."),
  traces_interval_ms: milliseconds(100, HOUR_MS).default(5_000).describe("Longest time until a span is exported."),
  sample_ratio: amount(0, 1)
    .default(0.01)
    .describe(
      "Share of traced requests among those without a `traceparent`. Others are traced if their trace is sampled; refused and slow ones always.",
    ),
  slow_ms: milliseconds(1, 60_000).default(100).describe("Decisions that take longer are traced."),
  max_spans_per_second: whole(0, 1_000_000)
    .default(100)
    .describe("Maximum spans per process and second; further requests are not traced."),
});
