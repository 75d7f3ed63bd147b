/** The page that Prometheus scrapes: samples of the metrics in the catalog, rendered by prom-client. */
import { type Metric, Registry } from "prom-client";
import { type MetricName, metrics } from "./catalog.js";

export type Labels = Record<string, string>;

/** The sample format of prom-client. `sharedLabels` are rendered once. */
interface Sample {
  labels: Labels;
  sharedLabels?: Labels;
  metricName?: string;
  value: number;
}

export interface Page {
  add(name: MetricName, labels: Labels, value: number): void;
  /**
   * A histogram at index `at` of the counters, laid out as in `counters.ts`.
   * @param shown the bounds to render, all by default
   */
  histogram(
    name: MetricName,
    labels: Labels,
    bounds: readonly number[],
    counters: ArrayLike<number>,
    at: number,
    shown?: readonly number[],
  ): void;
  text(): Promise<string>;
}

export const contentType = Registry.PROMETHEUS_CONTENT_TYPE;

export function createPage(): Page {
  const samples = new Map<MetricName, Sample[]>();
  for (const name of Object.keys(metrics) as MetricName[]) samples.set(name, []);

  return {
    add: (name, labels, value) => void samples.get(name)!.push({ labels, value }),
    histogram(name, labels, bounds, counters, at, shown = bounds) {
      const own = samples.get(name)!;
      let below = 0;
      bounds.forEach((bound, bucket) => {
        below += counters[at + 1 + bucket]!;
        if (!shown.includes(bound)) return;
        own.push({ labels: { le: String(bound) }, sharedLabels: labels, metricName: `${name}_bucket`, value: below });
      });
      const count = below + counters[at + 1 + bounds.length]!;
      own.push({ labels: { le: "+Inf" }, sharedLabels: labels, metricName: `${name}_bucket`, value: count });
      own.push({ labels: {}, sharedLabels: labels, metricName: `${name}_sum`, value: counters[at]! });
      own.push({ labels: {}, sharedLabels: labels, metricName: `${name}_count`, value: count });
    },
    async text() {
      const registry = new Registry();
      const families: string[] = [];
      for (const [name, values] of samples) {
        if (values.length === 0) continue;
        const { type, help } = metrics[name];
        const metric = { name, help, type, aggregator: "sum", get: () => ({ name, help, type, values }) };
        // The registry only reads the name and calls `get`; its type requires the classes of prom-client.
        registry.registerMetric(metric as unknown as Metric);
        families.push(await registry.getSingleMetricAsString(name));
        // Yield to the event loop: the page may be long.
        await new Promise((resolve) => setImmediate(resolve));
      }
      return `${families.join("\n\n")}\n`;
    },
  };
}
