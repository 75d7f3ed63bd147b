/** The conversation with the store: one message at a time for all apps, as seldom as it can be, as soon as it must be. */
import { EPOCH_CLOSED, OK } from "../core/codes.js";
import { emergencyRatio } from "../core/emergency.js";
import { cutLease, type LeaseOptions, returnAll } from "../core/lease.js";
import {
  answerToWaiting,
  bookCounters,
  bookReply,
  HEARTBEAT_MS,
  isAtRest,
  isScarce,
  isShort,
  MAX_APPS_PER_MESSAGE,
  type PlannedSync,
  planLastMessage,
  renewSyncState,
  SCARCE_GAP_MS,
} from "../core/sync.js";
import type { GrantRequest, Quota } from "../quota/quota.js";
import type { Clock } from "../shared/clock.js";
import { type AppLease, firstTarget, refit } from "./app-lease.js";
import { believeForShort, bookLastWord, bookOld, hasNews, planApp } from "./app-messages.js";
import type { AppRegister } from "./app-register.js";
import type { LimiterObserver } from "./limiter.js";
import { createStoreHealth } from "./store-health.js";

/** The part of a quota that a limiter needs. */
export type SyncTarget = Pick<Quota, "grant" | "report" | "heartbeat">;

/** What may change while it runs. */
export interface SyncSettings {
  target: SyncTarget;
  lease: LeaseOptions;
  timeoutMs: number;
}

export interface SyncerOptions extends SyncSettings {
  node: string;
  clock: Clock;
  observer: LimiterObserver;
  apps: Pick<AppRegister, "inForce" | "everyone" | "forget" | "newEpoch">;
  /** Runs what is to be done at the end of this turn of the event loop. */
  defer(work: () => void): void;
  /** The store has answered for an app. */
  serve(app: AppLease, code: string, retryAfterMs: number, refusedCost: number, short: boolean): void;
  /** It has not. */
  giveUp(app: AppLease, now: number, all: boolean): void;
}

interface Planned {
  app: AppLease;
  planned: PlannedSync;
  /** Under which settings it was asked: a later change makes the answer an old one. */
  settings: SyncSettings;
}

export function createSyncer(options: SyncerOptions) {
  const { node, clock, observer, apps } = options;
  let settings: SyncSettings = options;
  const health = createStoreHealth(clock, observer);
  const touched: AppLease[] = [];
  let epoch = Date.now();
  /** The store has given it up, and has still to hear of messages whose answers were lost in it. */
  let epochClosed = false;
  let seq = 0;
  let inFlight: Promise<void> | undefined;
  let soon = false;
  let closing = false;
  let live = 1;
  let emergency = false;
  let syncs = 0;
  let stopTicking = clock.after(settings.lease.syncIntervalMs, tick);

  function touch(app: AppLease): void {
    if (app.touched) return;
    app.touched = true;
    touched.push(app);
  }

  /** Tokens were spent and so many are left: refill in time. */
  function spent(app: AppLease, left: number): void {
    touch(app);
    if (left < app.lease.target * settings.lease.refillThreshold && inFlight === undefined) wake(app);
  }

  /** A request waits. */
  function wanted(app: AppLease): void {
    touch(app);
    wake(app);
  }

  /** Sends a message at the end of this turn of the event loop, so that all who miss in it share one. */
  function wake(app: AppLease): void {
    if (soon || inFlight !== undefined || closing) return;
    const now = clock.now();
    if (now < health.retryAt() || isScarce(app, now)) return;
    startSoon();
  }

  function startSoon(): void {
    if (soon) return;
    soon = true;
    options.defer(() => {
      soon = false;
      start();
    });
  }

  function tick(): void {
    const { syncIntervalMs } = settings.lease;
    stopTicking = clock.after(inFlight === undefined && anyoneWaits() ? SCARCE_GAP_MS : syncIntervalMs, tick);
    if (closing) return;
    const now = clock.now();
    for (const app of touched) options.giveUp(app, now, false);
    start();
  }

  const anyoneWaits = () => touched.some((app) => app.waiters.length > 0);

  function start(): void {
    const now = clock.now();
    if (closing || inFlight !== undefined || now < health.retryAt()) return;
    const planned = plan(now);
    if (planned.length === 0 && now - health.lastContact() < HEARTBEAT_MS) return;
    inFlight = exchange(planned, now).finally(() => {
      inFlight = undefined;
      if (!closing && (epochClosed || touched.some((app) => isUrgent(app, clock.now())))) start();
      else if (!closing && anyoneWaits()) hurry();
    });
  }

  /** Those who wait for the scarce gap to pass do not wait for the next tick. */
  function hurry(): void {
    stopTicking();
    stopTicking = clock.after(SCARCE_GAP_MS, tick);
  }

  function isUrgent(app: AppLease, now: number): boolean {
    return app.waiters.length > 0 && !isScarce(app, now) && now >= health.retryAt();
  }

  /** An app with nothing to say for long leaves the list. */
  function plan(now: number): Planned[] {
    const level = health.level();
    const policy = settings.lease;
    const planned: Planned[] = [];
    let kept = 0;
    for (const app of touched) {
      const due = epochClosed ? app.unanswered : hasNews(app, policy, level, now);
      if (due && planned.length < MAX_APPS_PER_MESSAGE) {
        planned.push({ app, planned: planApp(app, policy, level, now), settings });
      }
      if (due || !(app.leaving || isAtRest(app.lease, app.cell, policy, app.waitingCost, now))) {
        touched[kept++] = app;
      } else {
        app.touched = false;
        if (app.leaving) apps.forget(app);
      }
    }
    touched.length = kept;
    return planned;
  }

  async function exchange(planned: Planned[], started: number): Promise<void> {
    const sender = { node, epoch, seq: seq + 1 };
    try {
      const answer =
        planned.length === 0 ? { ...(await settings.target.heartbeat(sender)), apps: [] } : await send(sender, planned);
      health.heard(started, planned.length);
      live = Math.max(answer.liveNodes, 1);
      if (answer.code === EPOCH_CLOSED) return closeEpoch(planned);
      setEmergency(answer.emergency);
      planned.forEach((one, i) => {
        const grant = answer.apps[i];
        if (grant !== undefined) book(one, grant);
      });
    } catch (error) {
      health.failed(started, planned.length, error);
      const now = clock.now();
      for (const app of touched) options.giveUp(app, now, true);
    }
  }

  function send(sender: { node: string; epoch: number; seq: number }, planned: Planned[]) {
    seq++;
    syncs++;
    const requests: GrantRequest[] = planned.map(({ app, planned: { message } }) => ({
      ...{ ...message, app: app.policy, lastWord: message === app.lastWord },
    }));
    for (const { app } of planned) app.unanswered = true;
    return settings.target.grant(sender, requests, { deadlineMs: settings.timeoutMs });
  }

  type Granted = Awaited<ReturnType<SyncTarget["grant"]>>["apps"][number];

  function book({ app, planned, settings: asked }: Planned, grant: Granted): void {
    const now = clock.now();
    if (app.lastWord !== undefined) {
      bookLastWord(app, app.lastWord, grant.granted, now);
    } else if (asked !== settings) {
      // What was refused then is asked anew.
      if (bookOld(app, planned.message, grant.granted, grant.remaining, now)) options.serve(app, OK, 0, 0, false);
    } else if (bookReply(app, app.lease, app.cell, planned, grant, now)) {
      believeForShort(app, now);
      const code = answerToWaiting(planned, grant);
      options.serve(app, code, grant.retryAfterMs, planned.firstCost, isShort(planned, grant));
    }
  }

  /**
   * The store has given this epoch up and put its tokens back. It still books what it hears of it: where an answer was
   * lost before, nobody here knows whether the spending it was about is charged, so that is said again before a new
   * epoch begins.
   */
  function closeEpoch(planned: Planned[]): void {
    for (const { app, planned: sent } of planned) {
      bookCounters(app, sent.message);
      app.lastWord = undefined;
    }
    epochClosed = touched.some((app) => app.unanswered);
    if (!epochClosed) renewEpoch();
  }

  /** Drops the tokens and goes on as a new node. */
  function renewEpoch(): void {
    const now = clock.now();
    for (const app of apps.everyone()) renewSyncState(app, app.lease, app.cell, now);
    apps.newEpoch();
    epoch = Math.max(Date.now(), epoch + 1);
    seq = 0;
  }

  function setEmergency(active: boolean): void {
    if (active === emergency) return;
    emergency = active;
    observer.emergencyChanged?.(active);
    for (const app of apps.inForce()) {
      // What was remembered before holds no more, in either direction.
      app.lease.refusedUntil = 0;
      if (!active) continue;
      cutLease(app.lease, app.cell, emergencyRatio(app.policy.priority));
      touch(app);
    }
  }

  /** What an app may hold now. */
  function limitOf({ burst, priority }: AppLease["policy"]): number {
    return emergency ? Math.floor(burst * emergencyRatio(priority)) : burst;
  }

  /** Other settings hold from now on; what is too much for them goes back at once, and who waits is asked for anew. */
  function reconfigure(next: SyncSettings, leaving: AppLease[]): void {
    settings = next;
    const now = clock.now();
    for (const app of apps.inForce()) {
      if (app.lease.spendRate < 0) app.lease.target = firstTarget(app.policy, settings.lease);
      refit(app, limitOf(app.policy), now, settings.timeoutMs);
      if (app.lease.returned !== app.bookedReturned) touch(app);
    }
    for (const app of leaving) letGo(app);
    stopTicking();
    stopTicking = clock.after(settings.lease.syncIntervalMs, tick);
    if (inFlight === undefined) startSoon();
  }

  /** Configured no more, or a limit that nobody uses: what it holds goes back. */
  function letGo(app: AppLease): void {
    returnAll(app.lease, app.cell);
    touch(app);
  }

  /** The limits of one app have changed. */
  function changed(app: AppLease): void {
    refit(app, limitOf(app.policy), clock.now(), settings.timeoutMs);
    if (app.lease.returned !== app.bookedReturned) touch(app);
  }

  async function close(): Promise<void> {
    if (closing) return;
    closing = true;
    stopTicking();
    const now = clock.now();
    for (const app of apps.everyone()) options.giveUp(app, now, true);
    await inFlight;
    // After a last word that may have been heard, counters may mean something else to the store: there is nothing held.
    const all = [...apps.everyone()].filter(
      (app) => app.lastWord === undefined && (app.lease.granted > 0 || app.cell.get() !== 0 || app.unanswered),
    );
    do {
      const some = all.splice(0, MAX_APPS_PER_MESSAGE);
      const requests = some.map(({ lease, cell, policy: own }) => ({
        ...planLastMessage(lease, cell).message,
        app: own,
      }));
      const sender = { node, epoch, seq: ++seq };
      try {
        await settings.target.report(sender, requests, all.length === 0, { deadlineMs: settings.timeoutMs });
      } catch (error) {
        // The store is gone: what this node held comes back when it is found dead.
        observer.synced?.("error", 0, some.length, error);
        return;
      }
    } while (all.length > 0);
  }

  return {
    level: health.level,
    spent,
    wanted,
    setEmergency,
    reconfigure,
    letGo,
    changed,
    isClosed: () => closing,
    liveNodes: () => live,
    pin: health.pin,
    stats: () => ({ syncs, failedSyncs: health.failures(), level: health.level(), emergency, liveNodes: live }),
    close,
  };
}
