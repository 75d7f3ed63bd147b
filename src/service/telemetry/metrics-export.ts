/** Exports the metrics of the service with OTLP. */
import type { HrTime } from "@opentelemetry/api";
import type { DataPoint, MetricData, ResourceMetrics } from "@opentelemetry/sdk-metrics";
import { type MetricName, metricList, metrics } from "../metrics/catalog.js";
import { labelsOf, type Series, type Values } from "../metrics/series.js";
import { attributesOf, EXPORT_TIMEOUT_MS, httpOptions, loaded, observe, type TelemetryOptions } from "./exporters.js";

export interface MetricsExportOptions extends TelemetryOptions {
  /** The current values. */
  collect(): Promise<Series>;
}

export interface MetricsExport {
  close(): Promise<void>;
}

const hrTime = (unixMs: number): HrTime => [Math.floor(unixMs / 1000), Math.round((unixMs % 1000) * 1e6)];

/** Undefined if metrics are not exported. */
export async function startMetricsExport(options: MetricsExportOptions): Promise<MetricsExport | undefined> {
  const { otel, collect } = options;
  if (otel.endpoint === "" || !otel.metrics) return undefined;
  const [api, { resourceFromAttributes }, sdk, { OTLPMetricExporter }] = await loaded(
    Promise.all([
      import("@opentelemetry/api"),
      import("@opentelemetry/resources"),
      import("@opentelemetry/sdk-metrics"),
      import("@opentelemetry/exporter-metrics-otlp-proto"),
    ]),
  );
  const { DataPointType } = sdk;
  const resource = resourceFromAttributes(attributesOf(options));
  const startTime = hrTime(Date.now());

  function dataOf(name: MetricName, series: Series): MetricData {
    const { type, help, bounds } = metrics[name];
    const endTime = hrTime(Date.now());
    const points = <T>(value: (values: Values) => T): DataPoint<T>[] =>
      [...series.entries(name)].map(([key, values]) => ({
        ...{ startTime, endTime, attributes: Object.fromEntries(labelsOf(name, key)), value: value(values) },
      }));
    const shared = {
      descriptor: { name, description: help, unit: unitOf(name), valueType: api.ValueType.DOUBLE },
      aggregationTemporality: sdk.AggregationTemporality.CUMULATIVE,
    };
    const first = ([value = 0]: Values) => value;
    if (type === "histogram") {
      const dataPoints = points(([sum = 0, ...counts]) => ({
        buckets: { boundaries: [...bounds], counts },
        sum,
        count: counts.reduce((total, count) => total + count, 0),
      }));
      return { ...shared, dataPointType: DataPointType.HISTOGRAM, dataPoints };
    }
    if (type === "counter") {
      return { ...shared, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints: points(first) };
    }
    return { ...shared, dataPointType: DataPointType.GAUGE, dataPoints: points(first) };
  }

  async function resourceMetrics(): Promise<ResourceMetrics> {
    const series = await collect();
    const all = metricList.map(([name]) => dataOf(name, series));
    const scope = { name: "tollgate", version: options.version };
    return { resource, scopeMetrics: [{ scope, metrics: all.filter(({ dataPoints }) => dataPoints.length > 0) }] };
  }

  const exporter = new OTLPMetricExporter(httpOptions(otel, "/v1/metrics"));
  observe(exporter, "otlp_metrics", options);
  const reader = new sdk.PeriodicExportingMetricReader({
    exporter,
    exportIntervalMillis: otel.metricsIntervalMs,
    exportTimeoutMillis: Math.min(EXPORT_TIMEOUT_MS, otel.metricsIntervalMs),
    metricProducers: [{ collect: async () => ({ resourceMetrics: await resourceMetrics(), errors: [] }) }],
  });
  const provider = new sdk.MeterProvider({ resource, readers: [reader] });
  return {
    /** Without a last export: the workers are gone. */
    async close() {
      await Promise.race([
        provider.shutdown().catch(() => {}),
        new Promise((resolve) => setTimeout(resolve, 1_000).unref()),
      ]);
    },
  };
}

function unitOf(name: MetricName): string {
  if (name.includes("_seconds")) return "s";
  return name.endsWith("_bytes") ? "By" : "1";
}
