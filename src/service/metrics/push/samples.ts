/** The values of a push: counters with their growth since the last one, gauges, and quantiles of histograms. */
import { metricList } from "../catalog.js";
import { labelsOf, quantile, type Series, type Values } from "../series.js";

export interface Sample {
  name: string;
  labels: readonly (readonly [name: string, value: string])[];
  kind: "counter" | "gauge";
  value: number;
  /** Growth of a counter since the last push; its value at the first one. */
  growth: number;
}

const QUANTILES = [
  ["p50", 0.5],
  ["p99", 0.99],
] as const;

/** Returns a function that is called once per push. */
export function createSampler() {
  let before = new Map<string, Values>();

  return (series: Series): Sample[] => {
    const samples: Sample[] = [];
    const now = new Map<string, Values>();
    for (const [name, { type, bounds }] of metricList) {
      for (const [key, values] of series.entries(name)) {
        const id = `${name} ${key}`;
        const last = before.get(id);
        const growth = values.map((value, i) => Math.max(value - (last?.[i] ?? 0), 0));
        const labels = labelsOf(name, key);
        const add = (suffix: string, kind: Sample["kind"], value: number, grown: number) =>
          samples.push({ name: `${name}${suffix}`, labels, kind, value, growth: grown });
        if (type === "histogram") {
          const count = (list: Values) => list.slice(1).reduce((sum, one) => sum + one, 0);
          add("_count", "counter", count(values), count(growth));
          add("_sum", "counter", values[0]!, growth[0]!);
          if (count(growth) > 0) {
            for (const [suffix, share] of QUANTILES)
              add(`_${suffix}`, "gauge", quantile(bounds, growth.slice(1), share), 0);
          }
        } else add("", type === "counter" ? "counter" : "gauge", values[0]!, growth[0]!);
        if (type === "counter" || type === "histogram") now.set(id, [...values]);
      }
    }
    before = now;
    return samples;
  };
}
