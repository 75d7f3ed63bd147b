/** Sums the counters that data planes send in sync messages. Each batch is counted once, and no sum decreases. */
import {
  APP_HITS,
  APP_MISSES,
  APP_REFUSALS,
  APP_WIDTH,
  addCounters,
  appKey,
  CONNECTIONS_KEY,
  CONNECTIONS_LOST,
  CONNECTIONS_RECLAIMED,
  CONNECTIONS_REFUSED,
  CONNECTIONS_WIDTH,
  METHOD_WIDTH,
  methodKey,
} from "./counters.js";
import { connectionReasons, methodLabels, NO_APP, reasonIndex } from "./labels.js";
import { NO_APP_REPORT, type PlaneAppReport, type PlaneReport } from "./reports.js";

export interface PlaneCounters {
  /** Called when the message is about to be answered. A node that gets no reply repeats its batch. */
  add(node: string, epoch: number, report: PlaneReport, labelOf: (app: string) => string | undefined): void;
  /** Adds the sums to `totals`. Counters that are not wanted are dropped for good. */
  addTo(totals: Map<string, number[]>, isWanted: (key: string) => boolean): void;
  /** The gauges of nodes that reported recently. */
  nodes(): { node: string; gauges: Readonly<Record<string, number>> }[];
}

interface KnownNode {
  epoch: number;
  batch: number;
  at: number;
  gauges: Readonly<Record<string, number>>;
}

/** A node that has not reported for this long uses another service or is gone. */
const SHOWN_MS = 10_000;
/** For this long a node may repeat a batch. */
const KEPT_MS = 3_600_000;
/** Nodes choose their names, so their number is bounded; the least recent is dropped first. */
const MOST_NODES = 1_000;

/** @param now milliseconds, monotonic */
export function createPlaneCounters(now: () => number): PlaneCounters {
  /** Ordered by the time of the last report. */
  const nodes = new Map<string, KnownNode>();
  const sums = new Map<string, number[]>();

  function expire(): void {
    const before = now() - KEPT_MS;
    for (const [node, { at }] of nodes) {
      if (at >= before && nodes.size <= MOST_NODES) return;
      nodes.delete(node);
    }
  }

  function isRepeated(node: string, epoch: number, batch: number): boolean {
    const last = nodes.get(node);
    if (last === undefined) return false;
    // A node that restarts after its clock was set back continues with lower batch numbers, in another epoch.
    return batch === last.batch || (batch < last.batch && epoch === last.epoch);
  }

  return {
    add(node, epoch, { batch, apps, node: gauges }, labelOf) {
      const isNew = batch > 0 && !isRepeated(node, epoch, batch);
      if (isNew) for (const one of apps) addCounters(sums, countersOf(one, labelOf), () => true);
      const known = nodes.get(node);
      nodes.delete(node);
      nodes.set(node, { epoch, batch: isNew ? batch : (known?.batch ?? 0), at: now(), gauges });
      expire();
    },
    addTo(totals, isWanted) {
      for (const key of sums.keys()) if (!isWanted(key)) sums.delete(key);
      addCounters(totals, Object.fromEntries(sums), () => true);
    },
    nodes() {
      const since = now() - SHOWN_MS;
      return [...nodes].filter(([, { at }]) => at >= since).map(([node, { gauges }]) => ({ node, gauges }));
    },
  };
}

const refusedIndex = (reason: string) => CONNECTIONS_REFUSED + connectionReasons.indexOf(reason);
/** Connection counters of a node. The service itself counts the refusals of acquire calls. */
const connectionIndexes = new Map([
  ["slots_lost", CONNECTIONS_LOST],
  ["slots_reclaimed", CONNECTIONS_RECLAIMED],
  ["slots_refused_store_unavailable", refusedIndex("store_unavailable")],
  ["slots_refused_other", refusedIndex("other")],
]);

/** Unknown names are ignored: a newer data plane may count more. */
function countersOf({ app, lists }: PlaneAppReport, labelOf: (app: string) => string | undefined) {
  const label = app === NO_APP_REPORT ? NO_APP : (labelOf(app) ?? NO_APP);
  const own = new Array<number>(APP_WIDTH).fill(0);
  const counters: Record<string, number[]> = { [appKey(label)]: own };
  for (const [name, values] of Object.entries(lists)) {
    const method = methodLabels.indexOf(name as (typeof methodLabels)[number]);
    const reason = reasonIndex(name);
    const connection = connectionIndexes.get(name);
    if (name === "l3") {
      own[APP_HITS] = values[0] ?? 0;
      own[APP_MISSES] = values[1] ?? 0;
    } else if (method >= 0) {
      counters[methodKey(label, method)] = Array.from({ length: METHOD_WIDTH }, (_, i) => values[i] ?? 0);
    } else if (reason !== undefined) {
      own[APP_REFUSALS + reason] = values[0] ?? 0;
    } else if (connection !== undefined) {
      counters[CONNECTIONS_KEY] ??= new Array<number>(CONNECTIONS_WIDTH).fill(0);
      counters[CONNECTIONS_KEY][connection] = values[0] ?? 0;
    }
  }
  return counters;
}
