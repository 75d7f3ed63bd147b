/** What data planes elsewhere have counted, in sums of this service: each batch of a node once, and no sum ever falls. */
import type { AppNumbers, NodeNumbers } from "../control/plane-api/sync-numbers.js";
import { NOBODY } from "../control/plane-api/sync-numbers.js";
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
import { connectionReasons, methodLabels, NO_APP, reasonPlace } from "./labels.js";

export interface PlaneNumbers {
  /** Of a message that is answered: a node that hears no answer says it again, under the same number of its batch. */
  heard(node: string, epoch: number, numbers: NodeNumbers, labelOf: (app: string) => string | undefined): void;
  /** The sums, as in a worker's report. What nobody wants any more is forgotten. */
  addTo(totals: Map<string, number[]>, isWanted: (key: string) => boolean): void;
  /** How the nodes are that were heard of lately. */
  nodes(): { node: string; gauges: Readonly<Record<string, number>> }[];
}

interface Heard {
  epoch: number;
  batch: number;
  at: number;
  gauges: Readonly<Record<string, number>>;
}

/** A node that has not been heard of for so long is told of by another service, or is gone … */
const SHOWN_MS = 10_000;
/** … and for so long it may still repeat a batch. */
const KEPT_MS = 3_600_000;
/** Those heard of longest ago are forgotten first where there are more: their names are their own choice. */
const MOST_NODES = 1_000;

/** @param now milliseconds that never go back */
export function createPlaneNumbers(now: () => number): PlaneNumbers {
  const nodes = new Map<string, Heard>();
  const sums = new Map<string, number[]>();

  function forget(): void {
    const before = now() - KEPT_MS;
    // Who was heard of last stands last.
    for (const [node, { at }] of nodes) {
      if (at >= before && nodes.size <= MOST_NODES) return;
      nodes.delete(node);
    }
  }

  function isRepeated(node: string, epoch: number, batch: number): boolean {
    const last = nodes.get(node);
    if (last === undefined) return false;
    // A node that begins anew after its clock was set back counts its batches from below.
    return batch === last.batch || (batch < last.batch && epoch === last.epoch);
  }

  return {
    heard(node, epoch, numbers, labelOf) {
      const { batch, apps, node: gauges } = numbers;
      const isNew = batch > 0 && !isRepeated(node, epoch, batch);
      if (isNew) for (const one of apps) addCounters(sums, countersOf(one, labelOf), () => true);
      const known = nodes.get(node);
      nodes.delete(node);
      nodes.set(node, { epoch, batch: isNew ? batch : (known?.batch ?? 0), at: now(), gauges });
      forget();
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

const placeOfRefusals = (reason: string) => CONNECTIONS_REFUSED + connectionReasons.indexOf(reason);
/** What a node alone knows of its connections. Whatever a service refused, it has counted itself when it was asked. */
const connectionPlaces = new Map([
  ["slots_lost", CONNECTIONS_LOST],
  ["slots_reclaimed", CONNECTIONS_RECLAIMED],
  ["slots_refused_store_unavailable", placeOfRefusals("store_unavailable")],
  ["slots_refused_other", placeOfRefusals("other")],
]);

/** Of names that are not known here nothing is shown: a newer data plane may count more. */
function countersOf({ app, lists }: AppNumbers, labelOf: (app: string) => string | undefined) {
  const label = app === NOBODY ? NO_APP : (labelOf(app) ?? NO_APP);
  const own = new Array<number>(APP_WIDTH).fill(0);
  const counters: Record<string, number[]> = { [appKey(label)]: own };
  for (const [name, numbers] of Object.entries(lists)) {
    const method = methodLabels.indexOf(name as (typeof methodLabels)[number]);
    const reason = reasonPlace(name);
    if (name === "l3") {
      own[APP_HITS] = numbers[0] ?? 0;
      own[APP_MISSES] = numbers[1] ?? 0;
    } else if (method >= 0) {
      counters[methodKey(label, method)] = Array.from({ length: METHOD_WIDTH }, (_, i) => numbers[i] ?? 0);
    } else if (reason !== undefined) {
      own[APP_REFUSALS + reason] = numbers[0] ?? 0;
    } else if (connectionPlaces.has(name)) {
      counters[CONNECTIONS_KEY] ??= new Array<number>(CONNECTIONS_WIDTH).fill(0);
      counters[CONNECTIONS_KEY][connectionPlaces.get(name)!] = numbers[0] ?? 0;
    }
  }
  return counters;
}
