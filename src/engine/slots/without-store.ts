/**
 * Admission while the store is unavailable, by `on_store_failure`.
 *
 * `open` applies the limits to this process alone: with N processes a pod may get N times its limit. Where several workers
 * of one process decide separately (Envoy), each gets an equal part, rounded up. `local` applies this process's share of
 * the limits, rounded down: all processes together stay within the limit, not counting connections from before.
 */
import { type PlacementLimits, rateWindowMs } from "./limits.js";

/**
 * Counters of held connections, shared by all workers that decide with them. Each step is atomic: if two connections ask
 * for the last place at the same time, both may be refused, but never are both admitted.
 */
export interface SlotCounters {
  /** Adds to the number of connections on a pod, and returns the sum. */
  addPod(pod: string, by: number): number;
  addApp(app: string, by: number): number;
  addTotal(by: number): number;
  /** Counts one admission on a route, unless `burst` others were counted within the window. */
  takeRate(rate: AdmissionRate, now: number): boolean;
}

export interface AdmissionRate {
  route: string;
  burst: number;
  windowMs: number;
}

export interface PlacementWithoutStore {
  counters: SlotCounters;
  limits: PlacementLimits;
  onStoreFailure: string;
  route: string;
  app: string;
  pods: string[];
  /** Processes that share the limits, as far as is known. */
  liveNodes: number;
  /** Workers of this process that count separately. */
  workers: number;
}

const NO_LIMIT = 9007199254740991;

/** Returns the pod, which is counted then; undefined for a refusal. Of equally loaded pods it takes the first. */
export function placeWithoutStore(asked: PlacementWithoutStore, now: number): string | undefined {
  const { counters, limits, onStoreFailure, app, pods } = asked;
  if (onStoreFailure === "closed" || pods.length === 0) return undefined;
  const local = onStoreFailure === "local";
  const sharers = Math.max(local ? asked.liveNodes : asked.workers, 1);
  const pod = leastLoadedPod(counters, pods);
  if (counters.addPod(pod, 1) <= shareOf(limits.maxPerPod, sharers, local)) {
    const appShare = limits.maxPerApp === 0 ? NO_LIMIT : shareOf(limits.maxPerApp, sharers, local);
    if (counters.addApp(app, 1) <= appShare) {
      const totalShare = limits.maxTotal === 0 ? NO_LIMIT : shareOf(limits.maxTotal, sharers, local);
      if (counters.addTotal(1) <= totalShare) {
        const rate = { route: asked.route, burst: limits.burst, windowMs: rateWindowMs(limits) * sharers };
        if (limits.ratePerSecond === 0 || counters.takeRate(rate, now)) return pod;
      }
      counters.addTotal(-1);
    }
    counters.addApp(app, -1);
  }
  counters.addPod(pod, -1);
  return undefined;
}

function shareOf(limit: number, sharers: number, roundDown: boolean): number {
  return roundDown ? Math.floor(limit / sharers) : Math.ceil(limit / sharers);
}

function leastLoadedPod(counters: SlotCounters, pods: string[]): string {
  let best = pods[0]!;
  let least = counters.addPod(best, 0);
  for (const pod of pods) {
    const load = counters.addPod(pod, 0);
    if (load < least) {
      best = pod;
      least = load;
    }
  }
  return best;
}

/** Times of admissions by route: `takeRate` for a host whose decisions share no memory with another process. */
export interface AdmissionTimes {
  [route: string]: number[] | undefined;
}

/** The window slides, as it does in the store. */
export function takeRateFrom(times: AdmissionTimes, rate: AdmissionRate, now: number): boolean {
  const recent: number[] = [];
  for (const at of times[rate.route] ?? []) if (at > now - rate.windowMs) recent.push(at);
  times[rate.route] = recent;
  if (recent.length >= rate.burst) return false;
  recent.push(now);
  return true;
}
