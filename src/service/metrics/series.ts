/** Time series by metric and label values, of one process or summed over processes, and the page for Prometheus. */
import { type MetricName, metricList, metrics } from "./catalog.js";
import type { MetricDefinition } from "./metric-definition.js";

/** One number; for a histogram its sum, one count per bucket (not cumulative), and the count above all bounds. */
export type Values = [first: number, ...buckets: number[]];

/** The label values of a series, in the order of the catalog, as one text. */
type Key = string;

/** Plain data for messages between processes. Few and flat arrays, because there may be many thousand series. */
export type SeriesList = { [name in MetricName]?: { keys: Key[]; values: number[] } };

/** Not in any label: they come from the configuration and from fixed lists. */
const SEPARATOR = "\x1f";

/** The key of a series with these label values. */
export const seriesKey = (labels: readonly string[]): Key => labels.join(SEPARATOR);

const firstLabel = (key: Key) => (key.includes(SEPARATOR) ? key.slice(0, key.indexOf(SEPARATOR)) : key);

export type Series = ReturnType<typeof createSeries>;

/** Gauges that are not summed over processes. */
const notSummed: { [name in MetricName]?: (...values: number[]) => number } = {
  websocket_pod_limit: Math.max,
  ratelimit_certificate_expiry_timestamp_seconds: Math.min,
};

/** Yield to the event loop after this many series. */
const SERIES_PER_TURN = 200;

export function createSeries() {
  const families = new Map<MetricName, Map<Key, Values>>();

  /** The values of one series, to be incremented. They begin at 0. */
  function of(name: MetricName, ...labels: string[]): Values {
    return withKey(name, seriesKey(labels));
  }

  function withKey(name: MetricName, key: Key): Values {
    let family = families.get(name);
    if (family === undefined) {
      family = new Map();
      families.set(name, family);
    }
    let values = family.get(key);
    if (values === undefined) {
      const { type, bounds } = metrics[name];
      values = type === "histogram" ? newHistogram(bounds) : [0];
      family.set(key, values);
    }
    return values;
  }

  return {
    of,
    add(name: MetricName, labels: readonly string[], value = 1): void {
      of(name, ...labels)[0] += value;
    },
    observe(name: MetricName, labels: string[], value: number): void {
      observe(of(name, ...labels), metrics[name].bounds, value);
    },
    /** Adds all series of a list. */
    merge(list: SeriesList): void {
      for (const [name, { keys, values }] of Object.entries(list) as [MetricName, { keys: Key[]; values: Values }][]) {
        const combine = notSummed[name];
        keys.forEach((key, at) => {
          const isFirst = !families.get(name)?.has(key);
          const sum = withKey(name, key);
          const from = at * sum.length;
          if (combine !== undefined) sum[0] = isFirst ? values[from]! : combine(sum[0], values[from]!);
          else for (let i = 0; i < sum.length; i++) sum[i]! += values[from + i] ?? 0;
        });
      }
    },
    /** Drops the series of all other apps. */
    retainApps(labels: ReadonlySet<string>): void {
      for (const [name, family] of families) {
        if (metrics[name].labels[0] !== "app_id") continue;
        for (const key of family.keys()) if (!labels.has(firstLabel(key))) family.delete(key);
      }
    },
    /** A copy. */
    list(): SeriesList {
      const all: SeriesList = {};
      for (const [name, family] of families) {
        const values: number[] = [];
        for (const one of family.values()) for (const value of one) values.push(value);
        all[name] = { keys: [...family.keys()], values };
      }
      return all;
    },
    /** The series of a metric. */
    entries: (name: MetricName): Iterable<[Key, Values]> => families.get(name) ?? [],
  };
}

/**
 * The sums of all lists in the Prometheus text format, without the series of other apps. In parts, one metric at a time: a
 * whole page of many short texts and lists would stay in the heap for long.
 */
export async function* writePage(lists: readonly SeriesList[], apps: ReadonlySet<string>): AsyncGenerator<string> {
  for (const [name, definition] of metricList) {
    const sums = createSeries();
    for (const { [name]: list } of lists) if (list !== undefined) sums.merge({ [name]: list });
    sums.retainApps(apps);
    let lines = headerOf(name, definition);
    let written = 0;
    for (const [key, values] of sums.entries(name)) {
      lines.push(...seriesLines(name, definition, key.split(SEPARATOR), values));
      if (++written % SERIES_PER_TURN !== 0) continue;
      yield joined(lines);
      lines = [];
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (written % SERIES_PER_TURN !== 0) yield joined(lines);
  }
}

/** A sum, one count per bucket, and the count above all bounds. */
export const newHistogram = (bounds: readonly number[]): Values => [0, ...new Array<number>(bounds.length + 1).fill(0)];

/** Linear search, because most values are small. */
export function observe(histogram: Values, bounds: readonly number[], value: number): void {
  let bucket = 0;
  while (bucket < bounds.length && value > bounds[bucket]!) bucket++;
  histogram[0] += value;
  histogram[bucket + 1]!++;
}

/**
 * Estimates a quantile from the buckets of a histogram. Interpolates linearly within a bucket; values above all bounds count as the last bound.
 * @param counts per bucket, not cumulative; the last one is above all bounds
 */
export function quantile(bounds: readonly number[], counts: readonly number[], share: number): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  let wanted = total * share;
  if (total === 0) return 0;
  for (const [i, count] of counts.entries()) {
    const upper = bounds[i];
    if (upper === undefined) break;
    if (count > 0 && wanted <= count) {
      const lower = bounds[i - 1] ?? 0;
      return lower + (upper - lower) * (wanted / count);
    }
    wanted -= count;
  }
  return bounds.at(-1) ?? 0;
}

const joined = (lines: string[]) => lines.map((line) => `${line}\n`).join("");

/** The labels of a series with their values. */
export function labelsOf(name: MetricName, key: Key): [name: string, value: string][] {
  const { labels } = metrics[name];
  const values = key.split(SEPARATOR);
  return labels.map((label, i) => [label, values[i] ?? ""]);
}

type Written = Pick<MetricDefinition, "type" | "labels" | "help" | "bounds">;

/** The first lines of a metric in the Prometheus text format. */
export function headerOf(name: string, { type, help }: Written): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}

/** The lines of a series in the Prometheus text format. */
export function seriesLines(name: string, { type, labels, bounds }: Written, of: readonly string[], values: Values) {
  const pairs = labels.map(
    (label, i) => `${label}="${(of[i] ?? "").replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`,
  );
  const shared = pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
  const [first = 0, ...counts] = values;
  if (type !== "histogram") return [`${name}${shared} ${first}`];
  const others = pairs.map((pair) => `,${pair}`).join("");
  let total = 0;
  const buckets = counts.map((count, i) => {
    total += count;
    return `${name}_bucket{le="${bounds[i] ?? "+Inf"}"${others}} ${total}`;
  });
  return [...buckets, `${name}_sum${shared} ${first}`, `${name}_count${shared} ${total}`];
}
