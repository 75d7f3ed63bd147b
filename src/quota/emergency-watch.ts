/** Keeps an eye on the cluster's emergency: looks regularly, says aloud what changed, and looks at once when told. */
import type { Clock } from "../shared/clock.js";
import type { Store, Unsubscribe } from "../store/store.js";
import type { Quota } from "./quota.js";

/** Also the message on the channel, as JSON. */
export interface EmergencyState {
  active: boolean;
  /** "none", "operator" or "usage". */
  source: string;
  /** Milliseconds since 1970 on the store's clock; 0 when it is off. */
  sinceMs: number;
  /** How long it lasts unless somebody changes that; 0 when it is off or no end is set. */
  leftMs: number;
}

export interface EmergencyWatchOptions {
  quota: Pick<Quota, "emergencyCheck">;
  store: Pick<Store, "publish" | "subscribe">;
  clusterId: string;
  clock: Clock;
  random(): number;
  checkMs: number;
  /** As they are now: how long usage must be low, and whether the emergency begins and ends by usage. */
  settings(): { cooldownMs: number; automatic: boolean };
  /** Known here to have changed, by whomever. */
  changed(state: EmergencyState): void;
  failed(doing: "check" | "publish" | "subscribe", error: unknown): void;
}

const OFF: EmergencyState = { active: false, source: "none", sinceMs: 0, leftMs: 0 };
/** While the store fails, the pauses grow up to this, so that all is well again within a second. */
const LONGEST_RETRY_MS = 1000;
const FIRST_RETRY_MS = 250;
/** An end that moves by more was set anew; by less, it is the time that the answers took. */
const SAME_END_MS = 1000;

export function emergencyChannel(clusterId: string): string {
  return `ratelimit:emergency:${clusterId}`;
}

export function createEmergencyWatch(options: EmergencyWatchOptions) {
  const { quota, store, clock, checkMs, failed } = options;
  const channel = emergencyChannel(options.clusterId);
  let known = OFF;
  let knownAt = clock.now();
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  let publishing: Promise<void> | undefined;
  /** Changed, and not yet said. */
  let unsaid: EmergencyState | undefined;
  let failures = 0;
  let unheard = 0;
  let closed = false;
  let leave: Unsubscribe | undefined;
  let stopWaiting = clock.after(0, check);
  let stopListening = () => {};
  listen();

  /** Looks once more, after what is being looked at now: whoever calls this knows of a change that may be later. */
  function check(): Promise<void> {
    if (closed) return Promise.resolve();
    if (running === undefined) return look();
    next ??= running.then(() => {
      next = undefined;
      return closed ? undefined : look();
    });
    return next;
  }

  /** All that is known comes from here, one answer after the other, so nothing old replaces anything new. */
  function look(): Promise<void> {
    stopWaiting();
    running = lookOnce().finally(() => {
      running = undefined;
      if (!closed) stopWaiting = clock.after(failures === 0 ? checkMs : retryMs(failures), check);
    });
    return running;
  }

  async function lookOnce(): Promise<void> {
    try {
      const { cooldownMs, automatic } = options.settings();
      const answer = await quota.emergencyCheck(cooldownMs, automatic);
      failures = 0;
      const { active, source, sinceMs, leftMs } = answer;
      const state = { active, source, sinceMs, leftMs };
      if (answer.changed || (unsaid !== undefined && publishing === undefined)) void say(state);
      learn(state);
    } catch (error) {
      failures++;
      failed("check", error);
    }
  }

  function learn(state: EmergencyState): void {
    const now = clock.now();
    const before = current();
    known = state;
    knownAt = now;
    const same = state.active === before.active && state.source === before.source && state.sinceMs === before.sinceMs;
    const sameEnd =
      (state.leftMs === 0) === (before.leftMs === 0) && Math.abs(state.leftMs - before.leftMs) < SAME_END_MS;
    if (!same || !sameEnd) options.changed(state);
  }

  /** What is known, with the time that has passed since. */
  function current(): EmergencyState {
    if (known.leftMs === 0) return known;
    return { ...known, leftMs: Math.max(known.leftMs - Math.floor(clock.now() - knownAt), 1) };
  }

  /** Resolves when it was said or could not be; in that case it is said after the next look. */
  function say(state: EmergencyState): Promise<void> {
    unsaid = state;
    publishing ??= sayAll().finally(() => {
      publishing = undefined;
    });
    return publishing;
  }

  async function sayAll(): Promise<void> {
    while (unsaid !== undefined) {
      const state = unsaid;
      try {
        await store.publish(channel, JSON.stringify(state));
      } catch (error) {
        failed("publish", error);
        return;
      }
      if (unsaid === state) unsaid = undefined;
    }
  }

  function listen(): void {
    store
      .subscribe(channel, () => void check())
      .then(
        (unsubscribe) => {
          if (closed) return unsubscribe();
          leave = unsubscribe;
          // What was said before anybody here listened.
          void check();
        },
        (error: unknown) => {
          failed("subscribe", error);
          if (!closed) stopListening = clock.after(retryMs(++unheard), listen);
        },
      );
  }

  /** After so many failures in a row. */
  function retryMs(failed: number): number {
    return Math.min(FIRST_RETRY_MS * 2 ** (failed - 1), LONGEST_RETRY_MS) * (0.5 + options.random() / 2);
  }

  return {
    current,
    check,
    say,
    async close(): Promise<void> {
      closed = true;
      stopWaiting();
      stopListening();
      leave?.();
      await Promise.all([running, next, publishing]);
    },
  };
}
