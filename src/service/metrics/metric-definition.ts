/** How metrics are defined in the catalog: what they are, and where their values come from. */
import type { Coordinator } from "../../quota/coordinator.js";
import type { StoreState } from "./store-state.js";

/** One series: its value and its labels, in the order of the definition. */
export type Reading = readonly [value: number, ...labels: string[]];

/** What the service knows when its metrics are read. */
export interface ServiceState {
  /** What the store replied in time. */
  store: StoreState;
  clusterId: string;
  /** Of Tollgate. */
  version: string;
  config: { version(): string; loadedAtMs(): number };
  coordinator: Pick<Coordinator, "stats" | "emergency">;
}

/** Where values come from, beyond what the processes of the service count or measure. */
export interface MetricSource {
  /** Read for each scrape. A number is for a metric without labels; undefined: no series. */
  read?(state: ServiceState): number | undefined | readonly Reading[];
  /** The gauge of this name in sync messages of data planes. The label is the node. */
  nodeGauge?: string;
  /** The counters of these names in sync messages of data planes, each with the labels of its series. */
  planeCounters?: Readonly<Record<string, readonly string[]>>;
  /** Label values of the series that are shown as 0 until something is counted. */
  initial?: readonly (readonly string[])[];
}

export interface MetricDefinition<Labels extends readonly string[] = readonly string[]> extends MetricSource {
  /** Untyped: a gauge with the name of a counter, which an older contract has fixed. */
  type: "counter" | "gauge" | "histogram" | "untyped";
  labels: Labels;
  help: string;
  /** Upper bounds of the buckets of a histogram. */
  bounds: readonly number[];
  initial: readonly (readonly string[])[];
}

function metric(type: MetricDefinition["type"]) {
  return <const Labels extends readonly string[]>(
    labels: Labels,
    help: string,
    { bounds = [], ...source }: MetricSource & { bounds?: readonly number[] } = {},
  ): MetricDefinition<Labels> => {
    const isCounted = (type === "counter" || type === "histogram") && source.read === undefined;
    return { type, labels, help, bounds, initial: isCounted && labels.length === 0 ? [[]] : [], ...source };
  };
}

export const counter = metric("counter");
export const gauge = metric("gauge");
export const histogram = metric("histogram");
export const untyped = metric("untyped");

/** The series of a metric with one label that has these values. */
export const each = (values: readonly string[]) => values.map((value) => [value]);
