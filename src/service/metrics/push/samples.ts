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
        const growthOf = (value: number, at: number) => Math.max(value - (last?.[at] ?? 0), 0);
        const labels = labelsOf(name, key);
        const add = (suffix: string, kind: Sample["kind"], value: number, growth: number) =>
          samples.push({ name: `${name}${suffix}`, labels, kind, value, growth });
        const [first, ...counts] = values;
        if (type === "histogram") {
          const sum = (list: readonly number[]) => list.reduce((total, one) => total + one, 0);
          const grown = counts.map((count, bucket) => growthOf(count, bucket + 1));
          add("_count", "counter", sum(counts), sum(grown));
          add("_sum", "counter", first, growthOf(first, 0));
          if (sum(grown) > 0) {
            for (const [suffix, share] of QUANTILES) add(`_${suffix}`, "gauge", quantile(bounds, grown, share), 0);
          }
        } else add("", type === "counter" ? "counter" : "gauge", first, growthOf(first, 0));
        if (type === "counter" || type === "histogram") now.set(id, [...values]);
      }
    }
    before = now;
    return samples;
  };
}
