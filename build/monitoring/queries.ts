/** Writes PromQL over the metrics of the catalog. A metric or label that does not exist there is a type error. */
import { type MetricLabel, type MetricName, metrics } from "../../src/service/metrics/catalog.js";

/** The job of the services. Their pages have the counters of all planes. */
export const SERVICE_JOB = "tollgate";
/** The job of nginx's own pages. Its requests are on the pages of the services, too. */
export const NGINX_JOB = "tollgate-nginx";

/** Labels of targets. `cluster` separates several clusters of Tollgate in one Prometheus; it may be missing. */
type TargetLabel = "cluster" | "instance";

export interface Selection<Name extends MetricName> {
  by?: readonly (MetricLabel<Name> | TargetLabel)[];
  /** By label: a value, or an operator with a value such as `=~a|b` or `!=a`. */
  where?: { [label in MetricLabel<Name>]?: string };
}

export interface QueryOptions {
  /** The range of rates. */
  window: string;
  /** Matchers of every selector besides the job, such as `cluster=~"$cluster"`. */
  matchers?: readonly string[];
  /** Labels of every aggregation. */
  by?: readonly TargetLabel[];
}

export type Queries = ReturnType<typeof createQueries>;

export function createQueries({ window, matchers = [], by: always = [] }: QueryOptions) {
  function selector<Name extends MetricName>(name: Name, { where = {} }: Selection<Name>, suffix = ""): string {
    const chosen = Object.entries(where as Record<string, string>).map(([label, value]) => {
      const [, operator = "=", text = ""] = /^(=~|!=|!~)?(.*)$/s.exec(value) ?? [];
      return `${label}${operator}"${text}"`;
    });
    return `${name}${suffix}{${[`job="${SERVICE_JOB}"`, ...matchers, ...chosen].join(",")}}`;
  }

  function aggregated<Name extends MetricName>(
    operator: "sum" | "max" | "min" | "count",
    { by = [] }: Selection<Name>,
    inner: string,
    more: readonly string[] = [],
  ): string {
    const labels = [...always, ...by, ...more];
    return `${operator}${labels.length === 0 ? "" : ` by (${labels.join(", ")})`} (${inner})`;
  }

  function rate<Name extends MetricName>(name: Name, selection: Selection<Name> = {}, suffix = ""): string {
    return aggregated("sum", selection, `rate(${selector(name, selection, suffix)}[${window}])`);
  }

  function histogram(name: MetricName): void {
    if (metrics[name].type !== "histogram") throw new Error(`${name} is not a histogram`);
  }

  return {
    /** Per second. */
    rate,
    /** Growth of a counter within the range. */
    increase: <Name extends MetricName>(name: Name, range: string, selection: Selection<Name> = {}) =>
      aggregated("sum", selection, `increase(${selector(name, selection)}[${range}])`),
    sum: <Name extends MetricName>(name: Name, selection: Selection<Name> = {}) =>
      aggregated("sum", selection, selector(name, selection)),
    /** For gauges that several services show. */
    max: <Name extends MetricName>(name: Name, selection: Selection<Name> = {}) =>
      aggregated("max", selection, selector(name, selection)),
    min: <Name extends MetricName>(name: Name, selection: Selection<Name> = {}) =>
      aggregated("min", selection, selector(name, selection)),
    /** The highest value within the range. */
    highest: <Name extends MetricName>(name: Name, range: string, selection: Selection<Name> = {}) =>
      aggregated("max", selection, `max_over_time(${selector(name, selection)}[${range}])`),
    /** Number of different values of the labels in `by`. */
    distinct: <Name extends MetricName>(name: Name, by: NonNullable<Selection<Name>["by"]>) =>
      aggregated("count", {}, aggregated("count", { by }, selector(name, {}))),
    quantile<Name extends MetricName>(quantile: number, name: Name, selection: Selection<Name> = {}): string {
      histogram(name);
      const buckets = `rate(${selector(name, selection, "_bucket")}[${window}])`;
      return `histogram_quantile(${quantile}, ${aggregated("sum", selection, buckets, ["le"])})`;
    },
    /** Observations per second. */
    observed<Name extends MetricName>(name: Name, selection: Selection<Name> = {}): string {
      histogram(name);
      return rate(name, selection, "_count");
    },
    mean<Name extends MetricName>(name: Name, selection: Selection<Name> = {}): string {
      histogram(name);
      return `${rate(name, selection, "_sum")} / ${rate(name, selection, "_count")}`;
    },
  };
}
