/** Rates and latencies between two readings of the counters of workers, data planes and the primary. */
import { type Layer, layerNames } from "../metrics/labels.js";
import type { AllDecisions } from "../metrics/plane-totals.js";
import { latencyBoundsSeconds } from "../metrics/process-counters.js";
import { layerOfKey, type RefusalCounts } from "../metrics/refusal-counts.js";
import type { NodeReport } from "../metrics/reports.js";
import { quantileSeconds } from "../operations/statistics.js";

/** Where each number is in a list of counters. */
const names = ["requests", "refused", "dryRun", "local", "syncs", "failedSyncs", "storeErrors"] as const;
type CountName = (typeof names)[number];
const LAYERS_AT = names.length;
const LATENCY_AT = LAYERS_AT + layerNames.length;
const STORE_AT = LATENCY_AT + latencyBoundsSeconds.length + 1;
const WIDTH = STORE_AT + latencyBoundsSeconds.length + 1;

interface StoreCalls {
  storeLatency: readonly number[];
  storeErrors: number;
  connectionRefusals: Record<string, number>;
}

export interface Reading {
  /** Milliseconds, monotonic. */
  atMs: number;
  workers: readonly NodeReport[];
  planes: AllDecisions;
  /** Store calls of the primary, among them those for data planes. */
  primary: StoreCalls;
}

function countersOf(
  counts: Partial<Record<CountName, number>>,
  refusals: RefusalCounts,
  latency: readonly number[],
  storeLatency: readonly number[],
): number[] {
  const bins = latencyBoundsSeconds.map((_, i) => i + 1).concat(latencyBoundsSeconds.length + 1);
  const layers = new Map<Layer, number>();
  for (const [key, count] of Object.entries(refusals)) {
    const layer = layerOfKey(key);
    layers.set(layer, (layers.get(layer) ?? 0) + count);
  }
  return [
    ...names.map((name) => counts[name] ?? 0),
    ...layerNames.map((layer) => layers.get(layer) ?? 0),
    // The first number of a histogram is its sum.
    ...bins.map((i) => latency[i] ?? 0),
    ...bins.map((i) => storeLatency[i] ?? 0),
  ];
}

/** By source. Counters of a source only grow, unless it was restarted. */
function sources({ workers, planes, primary }: Reading): Map<string, number[]> {
  const { requests, refused, dryRunRefused, l3Hits, refusals, latency } = planes;
  const all = new Map([
    ["planes", countersOf({ requests, refused, dryRun: dryRunRefused, local: l3Hits }, refusals, latency, [])],
    ["primary", countersOf({ storeErrors: primary.storeErrors }, {}, [], primary.storeLatency)],
  ]);
  for (const one of workers) {
    const local = one.local + one.cached;
    const counts = {
      ...{ requests: local + one.remote + one.withoutStore, refused: one.refused, dryRun: one.dryRunRefused, local },
      ...{ syncs: one.syncs, failedSyncs: one.failedSyncs, storeErrors: one.storeErrors },
    };
    all.set(`worker ${one.node}`, countersOf(counts, one.refusals, one.latency, one.storeLatency));
  }
  return all;
}

export type Rates = NonNullable<ReturnType<ReturnType<typeof createMeter>>>;

export function createMeter() {
  let before: { atMs: number; sources: Map<string, number[]> } | undefined;

  /** What happened since the last reading; undefined for the first one. */
  return (reading: Reading) => {
    const now = { atMs: reading.atMs, sources: sources(reading) };
    const last = before;
    before = now;
    if (last === undefined || now.atMs <= last.atMs) return undefined;
    const sum = new Array<number>(WIDTH).fill(0);
    for (const [source, counters] of now.sources) {
      const old = last.sources.get(source);
      // A restarted worker counts from 0; a worker that did not report in time continues later.
      const isRestarted = old !== undefined && counters[0]! < old[0]!;
      if (old === undefined && source.startsWith("worker ") && last.sources.size > 2) continue;
      for (let i = 0; i < WIDTH; i++) sum[i]! += Math.max(counters[i]! - (isRestarted ? 0 : (old?.[i] ?? 0)), 0);
    }
    const seconds = (now.atMs - last.atMs) / 1000;
    const count = (name: CountName) => sum[names.indexOf(name)]!;
    const perSecond = (name: CountName) => rounded(count(name) / seconds);
    const quantiles = (at: number) => {
      const bins = sum.slice(at, at + latencyBoundsSeconds.length + 1);
      if (bins.every((one) => one === 0)) return { p50_ms: null, p99_ms: null };
      const ms = (quantile: number) => rounded(quantileSeconds(bins, quantile) * 1000);
      return { p50_ms: ms(0.5), p99_ms: ms(0.99) };
    };
    const requests = count("requests");
    return {
      seconds: rounded(seconds),
      requests: perSecond("requests"),
      admitted: rounded((requests - count("refused")) / seconds),
      refused: perSecond("refused"),
      /** Admitted only because of a dry run; included in `admitted`. */
      dry_run: perSecond("dryRun"),
      /** Share decided without a sync; null without requests. */
      local: requests === 0 ? null : rounded(Math.min(count("local") / requests, 1)),
      syncs: perSecond("syncs"),
      failed_syncs: perSecond("failedSyncs"),
      store_errors: perSecond("storeErrors"),
      decision: quantiles(LATENCY_AT),
      store: quantiles(STORE_AT),
      /** Refusals per second by layer, without zeros and without dry runs. */
      layers: Object.fromEntries(
        layerNames.flatMap((layer, i) => {
          const refused = sum[LAYERS_AT + i]!;
          return refused > 0 ? [[layer, rounded(refused / seconds)]] : [];
        }),
      ) as Partial<Record<Layer, number>>,
    };
  };
}

function rounded(value: number): number {
  return Math.round(value * 1e4) / 1e4;
}
