/** Tracks the cluster's emergency: checks it at an interval and on notification, and publishes changes. */
import { emergencyChannel } from "../core/keys.js";
import type { Clock } from "../shared/clock.js";
import type { Store, Unsubscribe } from "../store/store.js";
import type { Quota } from "./quota.js";

/** Also published on the channel, as JSON. */
export interface EmergencyState {
  active: boolean;
  /** "none", "operator" or "usage". */
  source: string;
  /** Milliseconds since 1970 on the store's clock; 0 if inactive. */
  sinceMs: number;
  /** Time until it ends; 0 if it is inactive or has no end. */
  leftMs: number;
  /** Bursts and borrowing are stopped: the first stage of the automatic emergency. */
  burstsStopped: boolean;
  /** Why, and who started it; empty unless an operator did. */
  reason: string;
  operator: string;
}

export interface EmergencyWatchOptions {
  quota: Pick<Quota, "emergencyCheck" | "emergencyState">;
  store: Pick<Store, "publish" | "subscribe">;
  clusterId: string;
  /** The name of this service. */
  node: string;
  /** Whether this service decides about emergencies. With several shards that takes many calls, so only one does. */
  decides(): boolean;
  clock: Clock;
  random(): number;
  checkMs: number;
  /** Current values: how long usage must be low, and whether usage starts and ends the emergency. */
  options: { cooldownMs: number; automaticEmergency: boolean };
  /** Called for every change, whatever its origin. */
  changed(state: EmergencyState): void;
  failed(doing: "check" | "publish" | "subscribe", error: unknown): void;
}

export const NO_EMERGENCY: EmergencyState = {
  active: false,
  source: "none",
  sinceMs: 0,
  leftMs: 0,
  burstsStopped: false,
  reason: "",
  operator: "",
};
/** Upper bound of the retry delay, so that recovery is noticed within a second. */
const MAX_RETRY_MS = 1000;
const FIRST_RETRY_MS = 250;
/** Smaller differences of the end result from latency; larger ones are a new end. */
const SAME_END_MS = 1000;

export function createEmergencyWatch(parts: EmergencyWatchOptions) {
  const { quota, store, clock, checkMs, options, changed, failed } = parts;
  const channel = emergencyChannel(parts.clusterId);
  let known = NO_EMERGENCY;
  let knownAt = clock.now();
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  let publishing: Promise<void> | undefined;
  /** The last change could not be published. */
  let unpublished = false;
  let failures = 0;
  let failedSubscriptions = 0;
  let closed = false;
  let unsubscribe: Unsubscribe | undefined;
  let cancelCheck = clock.after(0, check);
  let cancelSubscribe = () => {};
  subscribe();

  /** Checks again after a running check, because that may have started before the change that caused this call. */
  function check(): Promise<void> {
    if (closed) return Promise.resolve();
    if (running === undefined) return startCheck();
    next ??= running.then(() => {
      next = undefined;
      return closed ? undefined : startCheck();
    });
    return next;
  }

  /** The only source of `known`. Checks run one after the other, so an old reply never replaces a newer one. */
  function startCheck(): Promise<void> {
    cancelCheck();
    running = checkOnce().finally(() => {
      running = undefined;
      if (!closed) cancelCheck = clock.after(failures === 0 ? checkMs : retryMs(failures), check);
    });
    return running;
  }

  async function checkOnce(): Promise<void> {
    try {
      const { cooldownMs, automaticEmergency } = options;
      const checked = parts.decides()
        ? quota.emergencyCheck(cooldownMs, automaticEmergency)
        : quota.emergencyState(parts.node);
      const { changed: isNew, usage: _, ...state } = await checked;
      failures = 0;
      if (isNew || unpublished) void publish(state);
      update(state);
    } catch (error) {
      failures++;
      failed("check", error);
    }
  }

  function update(state: EmergencyState): void {
    const now = clock.now();
    const before = current();
    known = state;
    knownAt = now;
    const same = (["active", "source", "sinceMs", "burstsStopped", "reason", "operator"] as const).every(
      (key) => state[key] === before[key],
    );
    const sameEnd =
      (state.leftMs === 0) === (before.leftMs === 0) && Math.abs(state.leftMs - before.leftMs) < SAME_END_MS;
    if (!same || !sameEnd) changed(state);
  }

  /** The known state with its remaining time as of now. */
  function current(): EmergencyState {
    if (known.leftMs === 0) return known;
    return { ...known, leftMs: Math.max(known.leftMs - Math.floor(clock.now() - knownAt), 1) };
  }

  /** Resolves after the attempt; a failed one is repeated after the next check. */
  function publish(state: EmergencyState): Promise<void> {
    publishing = store.publish(channel, JSON.stringify(state)).then(
      () => {
        unpublished = false;
      },
      (error: unknown) => {
        unpublished = true;
        failed("publish", error);
      },
    );
    return publishing;
  }

  function subscribe(): void {
    store
      .subscribe(channel, () => void check())
      .then(
        (stop) => {
          if (closed) return stop();
          unsubscribe = stop;
          // A change may have been published before the subscription.
          void check();
        },
        (error: unknown) => {
          failed("subscribe", error);
          if (!closed) cancelSubscribe = clock.after(retryMs(++failedSubscriptions), subscribe);
        },
      );
  }

  function retryMs(failed: number): number {
    return Math.min(FIRST_RETRY_MS * 2 ** (failed - 1), MAX_RETRY_MS) * (0.5 + parts.random() / 2);
  }

  return {
    current,
    check,
    publish,
    async close(): Promise<void> {
      closed = true;
      cancelCheck();
      cancelSubscribe();
      unsubscribe?.();
      await Promise.all([running, next, publishing]);
    },
  };
}
