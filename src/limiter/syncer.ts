/** The conversation with the store: one message at a time for all apps, as seldom as it can be, as soon as it must be. */
import { COST_EXCEEDS_CAPACITY, EPOCH_CLOSED, OK } from "../core/codes.js";
import { emergencyRatio } from "../core/emergency.js";
import { applyReply, beginEpoch, cutLease, type LeasePolicy, returnAll, spentTokens } from "../core/lease.js";
import type { GrantRequest, Quota } from "../quota/quota.js";
import { type AppLease, cutTo, dropOldRefunds, refit } from "./app-lease.js";
import type { AppRegister } from "./app-register.js";
import type { Host } from "./host.js";
import type { LimiterObserver } from "./limiter.js";
import { createStoreHealth } from "./store-health.js";
import { isAtRest, isDue, isScarce, type PlannedMessage, planMessage, SCARCE_GAP_MS } from "./sync-plan.js";

/** The part of a quota that a limiter needs. */
export type SyncTarget = Pick<Quota, "grant" | "settle" | "heartbeat">;

/** What may change while it runs. */
export interface SyncSettings {
  target: SyncTarget;
  lease: LeasePolicy;
  timeoutMs: number;
}

export interface SyncerOptions extends SyncSettings {
  node: string;
  host: Host;
  observer: LimiterObserver;
  apps: Pick<AppRegister, "configured" | "everyone" | "forget" | "newEpoch">;
  /** Runs what is to be done at the end of this turn of the event loop. */
  defer(work: () => void): void;
  /** The store has answered for an app. */
  serve(app: AppLease, code: string, retryAfterMs: number, refusedCost: number): void;
  /** It has not. */
  giveUp(app: AppLease, now: number, all: boolean): void;
}

const HEARTBEAT_MS = 1000;
const MAX_APPS_PER_MESSAGE = 400;

interface Planned extends PlannedMessage {
  /** Under which settings it was asked: a later change makes the answer an old one. */
  settings: SyncSettings;
}

export function createSyncer(options: SyncerOptions) {
  const { node, host, observer, apps } = options;
  let settings: SyncSettings = options;
  const health = createStoreHealth(host, observer);
  const touched: AppLease[] = [];
  let epoch = Date.now();
  let seq = 0;
  let inFlight: Promise<void> | undefined;
  let soon = false;
  let closing = false;
  let live = 1;
  let emergency = false;
  let syncs = 0;
  let stopTicking = host.after(settings.lease.syncIntervalMs, tick);

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
    const now = host.now();
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
    stopTicking = host.after(inFlight === undefined && anyoneWaits() ? SCARCE_GAP_MS : syncIntervalMs, tick);
    if (closing) return;
    const now = host.now();
    for (const app of touched) options.giveUp(app, now, false);
    start();
  }

  const anyoneWaits = () => touched.some((app) => app.waiters.length > 0);

  function start(): void {
    const now = host.now();
    if (closing || inFlight !== undefined || now < health.retryAt()) return;
    const planned = plan(now);
    if (planned.length === 0 && now - health.lastContact() < HEARTBEAT_MS) return;
    inFlight = exchange(planned, now).finally(() => {
      inFlight = undefined;
      if (!closing && touched.some((app) => isUrgent(app, host.now()))) start();
      else if (!closing && anyoneWaits()) hurry();
    });
  }

  /** Those who wait for the scarce gap to pass do not wait for the next tick. */
  function hurry(): void {
    stopTicking();
    stopTicking = host.after(SCARCE_GAP_MS, tick);
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
      const due = isDue(app, policy, level, now);
      const chosen = due && planned.length < MAX_APPS_PER_MESSAGE;
      if (chosen) planned.push({ ...planMessage(app, policy, level, now), settings });
      if (due || !isAtRest(app, policy, now)) {
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
      if (answer.code === EPOCH_CLOSED) return renewEpoch(planned);
      setEmergency(answer.emergency);
      planned.forEach((one, i) => {
        const grant = answer.apps[i];
        if (grant !== undefined) book(one, grant);
      });
    } catch (error) {
      health.failed(started, planned.length, error);
      const now = host.now();
      for (const app of touched) options.giveUp(app, now, true);
    }
  }

  function send(sender: { node: string; epoch: number; seq: number }, planned: Planned[]) {
    seq++;
    syncs++;
    const requests: GrantRequest[] = planned.map(({ app, message }) => ({ ...message, app: app.policy }));
    for (const { app } of planned) app.unanswered = true;
    return settings.target.grant(sender, requests, { deadlineMs: settings.timeoutMs });
  }

  type Granted = Awaited<ReturnType<SyncTarget["grant"]>>["apps"][number];

  function book(planned: Planned, grant: Granted): void {
    const { app, message, firstCost, greedy } = planned;
    const now = host.now();
    const got = grant.granted - message.granted;
    app.unanswered = false;
    app.bookedSpent = message.spent;
    app.bookedReturned = message.returned;
    if (planned.settings !== settings) {
      bookOld(app, grant, now);
      return;
    }
    app.remaining = grant.remaining;
    app.limit = grant.limit;
    app.heardAt = now;
    if (got < message.want) app.scarceAt = now;
    // What is above the capacity is so for the sum that was asked for, not for the requests that it is the sum of.
    if (grant.code !== OK && grant.code !== COST_EXCEEDS_CAPACITY) app.shortCode = grant.code;
    const tooMuchAsked = grant.code !== OK && greedy;
    app.cautious = tooMuchAsked;
    // Asked for many and refused: the first of them may still have a chance, so nothing is remembered yet.
    const code = tooMuchAsked || message.need === 0 ? OK : grant.code;
    if (tooMuchAsked) app.scarceAt = Number.NEGATIVE_INFINITY;
    const retryAfterMs = Math.max(grant.retryAfterMs, SCARCE_GAP_MS);
    applyReply(app.lease, app.cell, grant.granted, code, retryAfterMs, firstCost, now);
    if (!tooMuchAsked) options.serve(app, code, grant.retryAfterMs, firstCost);
  }

  /** The settings have changed since the question: the tokens count, as far as they fit; what was refused is asked anew. */
  function bookOld(app: AppLease, grant: Granted, now: number): void {
    applyReply(app.lease, app.cell, grant.granted, OK, 0, 0, now);
    if (app.leaving) return;
    cutTo(app, app.limit);
    app.remaining = Math.min(grant.remaining, app.limit);
    app.heardAt = now;
    options.serve(app, OK, 0, 0);
  }

  /** The store has given this epoch up and put its tokens back: drop them, and go on as a new node. */
  function renewEpoch(planned: Planned[]): void {
    const now = host.now();
    for (const { app, message } of planned) app.bookedSpent = message.spent;
    for (const app of apps.everyone()) {
      beginEpoch(app.lease, app.cell, app.bookedSpent, now);
      app.unanswered = false;
      app.bookedSpent = 0;
      app.bookedReturned = 0;
    }
    apps.newEpoch();
    epoch = Math.max(Date.now(), epoch + 1);
    seq = 0;
  }

  function setEmergency(active: boolean): void {
    if (active === emergency) return;
    emergency = active;
    observer.emergencyChanged?.(active);
    for (const app of apps.configured()) {
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
  function reconfigure(changed: SyncSettings, leaving: AppLease[]): void {
    settings = changed;
    const latestAnswer = host.now() + settings.timeoutMs;
    for (const app of apps.configured()) {
      if (app.lease.spendRate < 0) app.lease.target = settings.lease.reserve;
      refit(app, limitOf(app.policy), latestAnswer);
      if (app.lease.returned !== app.bookedReturned) touch(app);
    }
    for (const app of leaving) {
      returnAll(app.lease, app.cell);
      touch(app);
    }
    stopTicking();
    stopTicking = host.after(settings.lease.syncIntervalMs, tick);
    if (inFlight === undefined) startSoon();
  }

  async function close(): Promise<void> {
    if (closing) return;
    closing = true;
    stopTicking();
    const now = host.now();
    for (const app of apps.everyone()) options.giveUp(app, now, true);
    await inFlight;
    const all = [...apps.everyone()].filter((app) => app.lease.granted > 0 || app.cell.get() !== 0 || app.unanswered);
    for (const app of all) {
      dropOldRefunds(app);
      returnAll(app.lease, app.cell);
    }
    do {
      const some = all.splice(0, MAX_APPS_PER_MESSAGE);
      const requests = some.map(({ lease, cell, policy: own }) => ({
        ...{ app: own, granted: lease.granted, returned: lease.returned },
        spent: Math.max(spentTokens(lease, cell), 0),
      }));
      const sender = { node, epoch, seq: ++seq };
      try {
        await settings.target.settle(sender, requests, all.length === 0, { deadlineMs: settings.timeoutMs });
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
    isClosed: () => closing,
    liveNodes: () => live,
    pin: health.pin,
    stats: () => ({ syncs, failedSyncs: health.failures(), level: health.level(), emergency, liveNodes: live }),
    close,
  };
}
