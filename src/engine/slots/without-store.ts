/**
 * Admission while the store is unavailable, by `on_store_failure`.
 *
 * `open` admits every connection, unless the process holds as many on the route as `maxWithoutStore` allows. Where several
 * workers of one process decide separately (Envoy), each gets an equal part of it, rounded up. `local` applies this process's
 * share of the limits, rounded down: all processes together stay within the limit, not counting connections from before.
 */

/** Limits of a route's connections, as the store applies them and as a process applies them without the store. */
export interface PlacementLimits {
  maxPerPod: number;
  /** 0: no limit. */
  maxTotal: number;
  /** 0: no limit. */
  maxPerApp: number;
  /** New connections per second over all proxies; 0: no limit. */
  ratePerSecond: number;
  /** At most this many new connections in any window of burst ÷ rate seconds. */
  burst: number;
}

/** What a process does while the store is unavailable. */
export interface PolicyWithoutStore {
  onStoreFailure: string;
  /** With `open`, connections of the route that a process may hold when it admits one without the store; 0: no limit. */
  maxWithoutStore?: number;
}

/** The window in which at most `burst` connections are admitted. Its length is part of a Redis key. */
export function rateWindowMs(limits: PlacementLimits): number {
  return limits.ratePerSecond > 0 ? Math.ceil((limits.burst * 1000) / limits.ratePerSecond) : 1000;
}

/**
 * Counters of held connections, shared by all workers that decide with them. Each step is atomic: if two connections ask
 * for the last place at the same time, both may be refused, but never are both admitted.
 */
export interface SlotCounters {
  /** Adds to the number of connections under a key: of a pod, of an app, or of all. Returns the sum. */
  add(key: string, by: number): number;
  /** Counts one admission on a route, unless `burst` others were counted within the window. */
  takeRate(rate: { route: string; burst: number; windowMs: number }, now: number): boolean;
}

export const ALL_CONNECTIONS = "total";

export function podCountKey(pod: string): string {
  return `pod:${pod}`;
}

function appCountKey(app: string): string {
  return `app:${app}`;
}

export function countSlot(counters: SlotCounters, slot: { pod: string; app: string }, by: number): void {
  counters.add(podCountKey(slot.pod), by);
  counters.add(appCountKey(slot.app), by);
  counters.add(ALL_CONNECTIONS, by);
}

export interface PlacementWithoutStore {
  counters: SlotCounters;
  limits: PlacementLimits & PolicyWithoutStore;
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
  const { counters, limits, app, pods } = asked;
  if (limits.onStoreFailure === "closed" || pods.length === 0) return undefined;
  const pod = leastLoadedPod(counters, pods);
  if (limits.onStoreFailure === "open") return placeOpen(asked, pod);
  const sharers = Math.max(asked.liveNodes, 1);
  if (counters.add(podCountKey(pod), 1) <= Math.floor(limits.maxPerPod / sharers)) {
    const appShare = limits.maxPerApp === 0 ? NO_LIMIT : Math.floor(limits.maxPerApp / sharers);
    if (counters.add(appCountKey(app), 1) <= appShare) {
      const totalShare = limits.maxTotal === 0 ? NO_LIMIT : Math.floor(limits.maxTotal / sharers);
      if (counters.add(ALL_CONNECTIONS, 1) <= totalShare) {
        const rate = { route: asked.route, burst: limits.burst, windowMs: rateWindowMs(limits) * sharers };
        if (limits.ratePerSecond === 0 || counters.takeRate(rate, now)) return pod;
      }
      counters.add(ALL_CONNECTIONS, -1);
    }
    counters.add(appCountKey(app), -1);
  }
  counters.add(podCountKey(pod), -1);
  return undefined;
}

function placeOpen({ counters, limits, app, workers }: PlacementWithoutStore, pod: string): string | undefined {
  const { maxWithoutStore = 0 } = limits;
  const most = maxWithoutStore === 0 ? NO_LIMIT : Math.ceil(maxWithoutStore / Math.max(workers, 1));
  countSlot(counters, { pod, app }, 1);
  if (counters.add(ALL_CONNECTIONS, 0) <= most) return pod;
  countSlot(counters, { pod, app }, -1);
  return undefined;
}

function leastLoadedPod(counters: SlotCounters, pods: string[]): string {
  let best = pods[0]!;
  let least = counters.add(podCountKey(best), 0);
  for (const pod of pods) {
    const load = counters.add(podCountKey(pod), 0);
    if (load < least) {
      best = pod;
      least = load;
    }
  }
  return best;
}

/** Times of admissions without the store, by route. */
export interface AdmissionTimes {
  [route: string]: number[] | undefined;
}

/** Counters of a host whose decisions share no memory with another process. */
export function newSlotCounters(times: AdmissionTimes): SlotCounters {
  const counts: { [key: string]: number | undefined } = {};
  return {
    add(key, by) {
      const sum = (counts[key] ?? 0) + by;
      counts[key] = sum === 0 ? undefined : sum;
      return sum;
    },
    /** The window slides, as it does in the store. */
    takeRate(rate, now) {
      const recent: number[] = [];
      for (const at of times[rate.route] ?? []) if (at > now - rate.windowMs) recent.push(at);
      times[rate.route] = recent;
      if (recent.length >= rate.burst) return false;
      recent.push(now);
      return true;
    },
  };
}
