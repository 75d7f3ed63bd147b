/** Number of connections that this process holds, per pod, per app and in all. */
import { type AdmissionTimes, type SlotCounters, takeRateFrom } from "../engine/slots/without-store.js";

export interface ProcessCounters extends SlotCounters {
  pods(): ReadonlyMap<string, number>;
}

export function createProcessCounters(): ProcessCounters {
  const perPod = new Map<string, number>();
  const perApp = new Map<string, number>();
  const times: AdmissionTimes = {};
  let total = 0;
  return {
    addPod: (pod, by) => add(perPod, pod, by),
    addApp: (app, by) => add(perApp, app, by),
    addTotal(by) {
      total += by;
      return total;
    },
    takeRate: (rate, now) => takeRateFrom(times, rate, now),
    pods: () => perPod,
  };
}

function add(counts: Map<string, number>, name: string, by: number): number {
  const sum = (counts.get(name) ?? 0) + by;
  if (sum === 0) counts.delete(name);
  else counts.set(name, sum);
  return sum;
}
