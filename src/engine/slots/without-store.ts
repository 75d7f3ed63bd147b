/**
 * Admission while the store is unavailable, by `on_store_failure`.
 *
 * `open` admits every connection, unless the process holds as many on the route as `maxWithoutStore` allows. Where several
 * workers of one process decide separately (Envoy), each gets an equal part of it, rounded up. `local` applies this process's
 * share of the limits, rounded down: all processes together stay within the limit, not counting connections from before.
 * With both, one client has at most as many connections to this process as its limit, with `local` its share, at least one.
 */
import { SLOT_CLIENT_LIMIT_EXCEEDED, STORE_UNAVAILABLE } from "../../core/codes.js";
import { hasPrefix } from "../../core/platform.js";

/** Limits of a route's connections, as the store applies them and as a process applies them without the store. */
export interface PlacementLimits {
  maxPerPod: number;
  /** 0: no limit. */
  maxTotal: number;
  /** 0: no limit. */
  maxPerApp: number;
  /** Of one client, by its network; 0 or absent: no limit. */
  maxPerClient?: number | undefined;
  /** New connections per second over all proxies; 0: no limit. */
  ratePerSecond: number;
  /** At most this many new connections in any window of burst ÷ rate seconds. */
  burst: number;
  /** New connections of one client in that window, or in two of them if the burst is 1; 0 or absent: no limit. */
  burstPerClient?: number | undefined;
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

/** The window of one client. If there is one connection per window, a client that has it must leave the next one to others. */
export function clientWindowMs(limits: PlacementLimits): number {
  return rateWindowMs(limits) * (limits.burst === 1 ? 2 : 1);
}

/** A limit of new connections: at most `burst` of them within any window, and of one client `burstPerClient` in its window. */
export interface SlotRate {
  route: string;
  burst: number;
  windowMs: number;
  /** Empty: unknown, or it has no limit. */
  client: string;
  burstPerClient: number;
  clientWindowMs: number;
}

/**
 * Counters of held connections, shared by all workers that decide with them. Each step is atomic: if two connections ask
 * for the last place at the same time, both may be refused, but never are both admitted.
 */
export interface SlotCounters {
  /** Adds to the number of connections under a key: of a pod, of an app, or of all. Returns the sum. */
  add(key: string, by: number): number;
  /** Counts one admission, unless as many others were counted within a window. */
  takeRate(rate: SlotRate, now: number): boolean;
}

export const ALL_CONNECTIONS = "total";

export function podCountKey(pod: string): string {
  return `pod:${pod}`;
}

function appCountKey(app: string): string {
  return `app:${app}`;
}

const CLIENT_PREFIX = "client:";

function clientCountKey(client: string): string {
  return CLIENT_PREFIX + client;
}

/** Whether the counter is one of many that come and go. Its host must remove it when it is zero. */
export function isClientCount(key: string): boolean {
  return hasPrefix(key, CLIENT_PREFIX);
}

export interface CountedSlot {
  pod: string;
  app: string;
  /** Absent or empty if unknown. */
  client?: string | undefined;
}

export function countSlot(counters: SlotCounters, { pod, app, client }: CountedSlot, by: number): void {
  counters.add(podCountKey(pod), by);
  counters.add(appCountKey(app), by);
  if (client !== undefined && client !== "") counters.add(clientCountKey(client), by);
  counters.add(ALL_CONNECTIONS, by);
}

export interface PlacementWithoutStore {
  counters: SlotCounters;
  limits: PlacementLimits & PolicyWithoutStore;
  route: string;
  app: string;
  /** Absent or empty if unknown. */
  client?: string | undefined;
  pods: string[];
  /** Processes that share the limits, as far as is known. */
  liveNodes: number;
  /** Workers of this process that count separately. */
  workers: number;
}

const NO_LIMIT = 9007199254740991;

/** Returns the pod, which is counted then; undefined for a refusal. Of equally loaded pods it takes the first. */
export function placeWithoutStore(asked: PlacementWithoutStore, now: number): string | undefined {
  const { counters, limits, app, client, pods } = asked;
  if (limits.onStoreFailure === "closed" || pods.length === 0) return undefined;
  const pod = leastLoadedPod(counters, pods);
  const slot = { pod, app, client };
  countSlot(counters, slot, 1);
  if (isWithinLimits(asked, pod, now)) return pod;
  countSlot(counters, slot, -1);
  return undefined;
}

/** The reason of a refusal by `placeWithoutStore`. */
export function refusalWithoutStore(asked: PlacementWithoutStore): string {
  const { counters, limits, client = "" } = asked;
  if (limits.onStoreFailure === "closed" || client === "") return STORE_UNAVAILABLE;
  const isFull = counters.add(clientCountKey(client), 0) >= mostPerClient(asked);
  return isFull ? SLOT_CLIENT_LIMIT_EXCEEDED : STORE_UNAVAILABLE;
}

/** Whether the limits admit the connection, which is counted already. */
function isWithinLimits(asked: PlacementWithoutStore, pod: string, now: number): boolean {
  const { counters, limits, app, client = "" } = asked;
  if (client !== "" && counters.add(clientCountKey(client), 0) > mostPerClient(asked)) return false;
  const total = counters.add(ALL_CONNECTIONS, 0);
  if (limits.onStoreFailure === "open") {
    const { maxWithoutStore = 0 } = limits;
    return maxWithoutStore === 0 || total <= Math.ceil(maxWithoutStore / Math.max(asked.workers, 1));
  }
  const sharers = sharersOf(asked);
  if (counters.add(podCountKey(pod), 0) > Math.floor(limits.maxPerPod / sharers)) return false;
  if (limits.maxPerApp > 0 && counters.add(appCountKey(app), 0) > Math.floor(limits.maxPerApp / sharers)) return false;
  if (limits.maxTotal > 0 && total > Math.floor(limits.maxTotal / sharers)) return false;
  if (limits.ratePerSecond === 0) return true;
  const { burst, burstPerClient = 0 } = limits;
  const rate = {
    ...{ route: asked.route, burst, windowMs: rateWindowMs(limits) * sharers },
    ...{ client: burstPerClient > 0 ? client : "", burstPerClient, clientWindowMs: clientWindowMs(limits) * sharers },
  };
  return counters.takeRate(rate, now);
}

function sharersOf({ liveNodes }: PlacementWithoutStore): number {
  return Math.max(liveNodes, 1);
}

function mostPerClient(asked: PlacementWithoutStore): number {
  const { maxPerClient = 0, onStoreFailure } = asked.limits;
  if (maxPerClient === 0) return NO_LIMIT;
  return onStoreFailure === "open" ? maxPerClient : Math.max(Math.floor(maxPerClient / sharersOf(asked)), 1);
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

interface Admission {
  at: number;
  client: string;
}

/** Admissions without the store, by route. */
export interface AdmissionTimes {
  [route: string]: Admission[] | undefined;
}

/** Counters of a host whose decisions share no memory with another process. */
export function newSlotCounters(times: AdmissionTimes): SlotCounters {
  const counts: { [key: string]: number | undefined } = {};
  return {
    add(key, by) {
      const sum = (counts[key] ?? 0) + by;
      // Clients come and go: in JavaScript, an entry with `undefined` would stay.
      if (sum === 0) delete counts[key];
      else counts[key] = sum;
      return sum;
    },
    /** The windows slide, as they do in the store. */
    takeRate({ route, burst, windowMs, client, burstPerClient, clientWindowMs }, now) {
      const kept: Admission[] = [];
      let recent = 0;
      let ofClient = 0;
      for (const admission of times[route] ?? []) {
        const ago = now - admission.at;
        if (ago < windowMs) recent++;
        if (ago < clientWindowMs && admission.client === client) ofClient++;
        if (ago < windowMs || ago < clientWindowMs) kept.push(admission);
      }
      times[route] = kept;
      if (recent >= burst || (client !== "" && ofClient >= burstPerClient)) return false;
      kept.push({ at: now, client });
      return true;
    },
  };
}
