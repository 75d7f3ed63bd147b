/** Time series by metric and label values: those of a process, sums over processes, and the page for Prometheus. */
import { type MetricName, metrics } from "./catalog.js";

/** One number; for a histogram its sum, one count per bucket (not cumulative), and the count above all bounds. */
export type Values = number[];

/** Plain data for messages between processes. Label values are in the order of the catalog. */
export type SeriesList = { [name in MetricName]?: [labels: string[], values: Values][] };

export type Series = ReturnType<typeof createSeries>;

/** Yield to the event loop after this many series. */
const SERIES_PER_TURN = 200;

export function createSeries() {
  const families = new Map<MetricName, Map<string, [labels: string[], values: Values]>>();

  /** The values of one series, to be incremented. They begin at 0. */
  function of(name: MetricName, ...labels: string[]): Values {
    let family = families.get(name);
    if (family === undefined) {
      family = new Map();
      families.set(name, family);
    }
    const key = labels.join("\n");
    let series = family.get(key);
    if (series === undefined) {
      const { type, bounds } = metrics[name];
      series = [labels, new Array<number>(type === "histogram" ? bounds.length + 2 : 1).fill(0)];
      family.set(key, series);
    }
    return series[1];
  }

  return {
    of,
    add(name: MetricName, labels: string[], value = 1): void {
      of(name, ...labels)[0]! += value;
    },
    observe(name: MetricName, labels: string[], value: number): void {
      observe(of(name, ...labels), metrics[name].bounds, value);
    },
    /** Adds all series of a list. Limits of pods are equal in all processes and not added. */
    merge(list: SeriesList): void {
      for (const [name, all] of Object.entries(list) as [MetricName, [string[], Values][]][]) {
        for (const [labels, values] of all) {
          const sum = of(name, ...labels);
          if (name === "websocket_pod_limit") sum[0] = Math.max(sum[0]!, values[0]!);
          else for (let i = 0; i < sum.length; i++) sum[i]! += values[i] ?? 0;
        }
      }
    },
    /** Drops the series of all other apps. */
    retainApps(labels: ReadonlySet<string>): void {
      for (const [name, family] of families) {
        if (metrics[name].labels[0] !== "app_id") continue;
        for (const [key, [[app]]] of family) if (!labels.has(app!)) family.delete(key);
      }
    },
    /** Not a copy: the values change with the series. */
    list(): SeriesList {
      return Object.fromEntries([...families].map(([name, family]) => [name, [...family.values()]]));
    },
    /** In the Prometheus text format. */
    async text(): Promise<string> {
      const lines: string[] = [];
      let written = 0;
      for (const [name, { type, help }] of Object.entries(metrics)) {
        const family = families.get(name as MetricName) ?? new Map<string, never>();
        if (family.size > 0) lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
        for (const [labels, values] of family.values()) {
          writeSeries(lines, name as MetricName, labels, values);
          if (++written % SERIES_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
        }
      }
      return `${lines.join("\n")}\n`;
    },
  };
}

/** Linear search, because most values are small. */
export function observe(histogram: Values, bounds: readonly number[], value: number): void {
  let bucket = 0;
  while (bucket < bounds.length && value > bounds[bucket]!) bucket++;
  histogram[0]! += value;
  histogram[bucket + 1]!++;
}

function writeSeries(lines: string[], name: MetricName, labels: string[], values: Values): void {
  const { type, bounds, labels: names } = metrics[name];
  const pairs = labels.map((value, i) => `${names[i]}="${value.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`);
  const shared = pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
  if (type !== "histogram") {
    lines.push(`${name}${shared} ${values[0]}`);
    return;
  }
  const others = pairs.map((pair) => `,${pair}`).join("");
  let count = 0;
  for (let i = 0; i <= bounds.length; i++) {
    count += values[i + 1]!;
    lines.push(`${name}_bucket{le="${bounds[i] ?? "+Inf"}"${others}} ${count}`);
  }
  lines.push(`${name}_sum${shared} ${values[0]}`, `${name}_count${shared} ${count}`);
}
