/** The conversation with the store: one message at a time for all apps, as seldom as it can be, as soon as it must be. */
import { BORROW_RATIO } from "../core/borrow.js";
import { EPOCH_CLOSED, OK } from "../core/codes.js";
import {
  defaultDegradationPolicy,
  degradationLevel,
  newDegradation,
  observeCall,
  pinLevel,
  STORE_ERROR,
  STORE_OK,
  STORE_TIMEOUT,
} from "../core/degradation.js";
import { emergencyRatio } from "../core/emergency.js";
import {
  applyReply,
  beginEpoch,
  cutLease,
  isRefused,
  isReportDue,
  type LeaseMessage,
  type LeasePolicy,
  needsRefill,
  planSync,
  returnAll,
  spentTokens,
} from "../core/lease.js";
import type { GrantRequest, Quota } from "../quota/quota.js";
import { StoreError } from "../store/errors.js";
import type { AppLease } from "./app-lease.js";
import type { Host } from "./host.js";
import type { LimiterObserver } from "./limiter.js";

/** The part of a quota that a limiter needs. */
export type SyncTarget = Pick<Quota, "grant" | "settle" | "heartbeat">;

export interface SyncerOptions {
  node: string;
  target: SyncTarget;
  policy: LeasePolicy;
  timeoutMs: number;
  host: Host;
  observer: LimiterObserver;
  apps(): Iterable<AppLease>;
  /** The store has answered for an app. */
  serve(app: AppLease, code: string, retryAfterMs: number, refusedCost: number): void;
  /** It has not. */
  giveUp(app: AppLease, now: number, all: boolean): void;
}

/** While the store gives less than is wanted, it is asked no more often: what trickles in is fetched in gulps. */
const SCARCE_GAP_MS = 10;
const HEARTBEAT_MS = 1000;
const MAX_APPS_PER_MESSAGE = 400;
const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 1000;

interface Planned {
  app: AppLease;
  message: LeaseMessage;
  /** Cost of the cheapest refusal that the answer can mean. */
  firstCost: number;
  /** Asked for more than the first who waits. */
  greedy: boolean;
}

export function createSyncer(options: SyncerOptions) {
  const { node, target, policy, timeoutMs, host, observer } = options;
  const degradation = newDegradation(defaultDegradationPolicy);
  const touched: AppLease[] = [];
  let epoch = Date.now();
  let seq = 0;
  let inFlight: Promise<void> | undefined;
  let soon = false;
  let closing = false;
  let lastContact = Number.NEGATIVE_INFINITY;
  let failures = 0;
  let retryAt = Number.NEGATIVE_INFINITY;
  let live = 1;
  let emergency = false;
  let lastLevel = 0;
  let syncs = 0;
  let failedSyncs = 0;
  let stopTicking = host.after(policy.syncIntervalMs, tick);

  function level(): number {
    const now = degradationLevel(degradation, defaultDegradationPolicy, host.now());
    if (now !== lastLevel) {
      const before = lastLevel;
      lastLevel = now;
      observer.levelChanged?.(now, before);
    }
    return now;
  }

  function touch(app: AppLease): void {
    if (app.touched) return;
    app.touched = true;
    touched.push(app);
  }

  /** Tokens were spent and so many are left: refill in time. */
  function spent(app: AppLease, left: number): void {
    touch(app);
    if (left < app.lease.target * policy.refillThreshold && inFlight === undefined) wake(app);
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
    if (now < retryAt || now - app.scarceAt < SCARCE_GAP_MS) return;
    soon = true;
    queueMicrotask(() => {
      soon = false;
      start();
    });
  }

  function tick(): void {
    stopTicking = host.after(inFlight === undefined && anyoneWaits() ? SCARCE_GAP_MS : policy.syncIntervalMs, tick);
    if (closing) return;
    const now = host.now();
    for (const app of touched) options.giveUp(app, now, false);
    start();
  }

  const anyoneWaits = () => touched.some((app) => app.waiters.length > 0);

  function start(): void {
    const now = host.now();
    if (closing || inFlight !== undefined || now < retryAt) return;
    const planned = plan(now);
    if (planned.length === 0 && now - lastContact < HEARTBEAT_MS) return;
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
    return app.waiters.length > 0 && now - app.scarceAt >= SCARCE_GAP_MS && now >= retryAt;
  }

  /** Whether there is something to say about an app. An app with nothing to say for long leaves the list. */
  function isDue(app: AppLease, now: number, current: number): boolean {
    const { lease, cell } = app;
    if (isReportDue(lease, cell, policy, current, now)) return true;
    const scarce = now - app.scarceAt < SCARCE_GAP_MS;
    if (app.waiters.length > 0) return !scarce;
    const active = now - lease.activeAt < policy.idleMs;
    if (active) return !scarce && needsRefill(lease, cell, policy) && !isRefused(lease, 1, now);
    return cell.get() !== 0 || spentTokens(lease, cell) !== app.bookedSpent;
  }

  function plan(now: number): Planned[] {
    const current = level();
    const planned: Planned[] = [];
    let kept = 0;
    for (const app of touched) {
      const due = planned.length < MAX_APPS_PER_MESSAGE && isDue(app, now, current);
      if (due) planned.push(planOne(app, now, current));
      const idle = now - app.lease.activeAt >= policy.idleMs && app.cell.get() === 0 && app.waiters.length === 0;
      if (due || !idle) touched[kept++] = app;
      else app.touched = false;
    }
    touched.length = kept;
    return planned;
  }

  function planOne(app: AppLease, now: number, current: number): Planned {
    const firstCost = app.waiters[0]?.cost ?? 0;
    // All who wait are asked for at once, as far as the store is likely to have it; after a refusal only the first.
    const { guaranteed, borrow } = app.policy;
    const likely = app.remaining + ((now - app.heardAt) / 1000 + (borrow ? BORROW_RATIO : 0)) * guaranteed;
    const hoped = Math.floor(Math.min(app.waitingCost, likely + Math.max(app.cell.get(), 0)));
    const needed = app.cautious ? firstCost : Math.max(firstCost, hoped);
    const message = planSync(app.lease, app.cell, policy, current, needed, app.waitingCost, now);
    return { app, message, firstCost, greedy: needed > firstCost };
  }

  async function exchange(planned: Planned[], started: number): Promise<void> {
    const sender = { node, epoch, seq: seq + 1 };
    try {
      const answer =
        planned.length === 0 ? { ...(await target.heartbeat(sender)), apps: [] } : await send(sender, planned);
      heard(started, planned.length);
      live = Math.max(answer.liveNodes, 1);
      if (answer.code === EPOCH_CLOSED) return renewEpoch(planned);
      setEmergency(answer.emergency);
      planned.forEach((one, i) => {
        const grant = answer.apps[i];
        if (grant !== undefined) book(one, grant);
      });
    } catch (error) {
      failed(started, planned.length, error);
    }
  }

  function send(sender: { node: string; epoch: number; seq: number }, planned: Planned[]) {
    seq++;
    syncs++;
    const requests: GrantRequest[] = planned.map(({ app, message }) => ({ ...message, app: app.policy }));
    return target.grant(sender, requests, { deadlineMs: timeoutMs });
  }

  type Granted = Awaited<ReturnType<SyncTarget["grant"]>>["apps"][number];

  function book({ app, message, firstCost, greedy }: Planned, grant: Granted): void {
    const now = host.now();
    const got = grant.granted - message.granted;
    app.bookedSpent = message.spent;
    app.remaining = grant.remaining;
    app.limit = grant.limit;
    app.heardAt = now;
    if (got < message.want) app.scarceAt = now;
    const tooMuchAsked = grant.code !== OK && greedy;
    app.cautious = tooMuchAsked;
    // Asked for many and refused: the first of them may still have a chance, so nothing is remembered yet.
    const code = tooMuchAsked || message.need === 0 ? OK : grant.code;
    if (tooMuchAsked) app.scarceAt = Number.NEGATIVE_INFINITY;
    const retryAfterMs = Math.max(grant.retryAfterMs, SCARCE_GAP_MS);
    applyReply(app.lease, app.cell, grant.granted, code, retryAfterMs, firstCost, now);
    if (!tooMuchAsked) options.serve(app, code, grant.retryAfterMs, firstCost);
  }

  function heard(started: number, count: number): void {
    const now = host.now();
    observeCall(degradation, defaultDegradationPolicy, now, STORE_OK, now - started);
    failures = 0;
    lastContact = now;
    observer.synced?.("ok", now - started, count);
    level();
  }

  function failed(started: number, count: number, error: unknown): void {
    const now = host.now();
    const timedOut = error instanceof StoreError && error.kind === "timeout";
    observeCall(degradation, defaultDegradationPolicy, now, timedOut ? STORE_TIMEOUT : STORE_ERROR, now - started);
    failedSyncs++;
    // One probe at a time, and not all nodes at the same moment.
    const pause = Math.min(FIRST_RETRY_MS * 2 ** failures++, LONGEST_RETRY_MS);
    retryAt = now + pause * (0.5 + Math.random() / 2);
    observer.synced?.(timedOut ? "timeout" : "error", now - started, count, error);
    level();
    for (const app of touched) options.giveUp(app, now, true);
  }

  /** The store has given this epoch up and put its tokens back: drop them, and go on as a new node. */
  function renewEpoch(planned: Planned[]): void {
    const now = host.now();
    for (const { app, message } of planned) app.bookedSpent = message.spent;
    for (const app of options.apps()) {
      beginEpoch(app.lease, app.cell, app.bookedSpent, now);
      app.bookedSpent = 0;
    }
    epoch = Math.max(Date.now(), epoch + 1);
    seq = 0;
  }

  function setEmergency(active: boolean): void {
    if (active === emergency) return;
    emergency = active;
    observer.emergencyChanged?.(active);
    for (const app of options.apps()) {
      // What was remembered before holds no more, in either direction.
      app.lease.refusedUntil = 0;
      if (!active) continue;
      cutLease(app.lease, app.cell, emergencyRatio(app.policy.priority));
      touch(app);
    }
  }

  async function close(): Promise<void> {
    if (closing) return;
    closing = true;
    stopTicking();
    const now = host.now();
    for (const app of options.apps()) options.giveUp(app, now, true);
    await inFlight;
    const all = [...options.apps()].filter((app) => app.lease.granted > 0 || app.cell.get() !== 0);
    for (const app of all) returnAll(app.lease, app.cell);
    do {
      const some = all.splice(0, MAX_APPS_PER_MESSAGE);
      const requests = some.map(({ lease, cell, policy: own }) => ({
        ...{ app: own, granted: lease.granted, returned: lease.returned },
        spent: Math.max(spentTokens(lease, cell), 0),
      }));
      const sender = { node, epoch, seq: ++seq };
      try {
        await target.settle(sender, requests, all.length === 0, { deadlineMs: timeoutMs });
      } catch (error) {
        // The store is gone: what this node held comes back when it is found dead.
        observer.synced?.("error", 0, some.length, error);
        return;
      }
    } while (all.length > 0);
  }

  return {
    level,
    spent,
    wanted,
    setEmergency,
    liveNodes: () => live,
    pin: (pinned: number, durationMs: number) => pinLevel(degradation, pinned, host.now() + durationMs),
    stats: () => ({ syncs, failedSyncs, level: level(), emergency, liveNodes: live }),
    close,
  };
}
