/** Sends the syncs of a limiter with one shard: one at a time for its accounts, on a timer or when a request needs tokens. */

import type { AppLimits } from "../core/app-limits.js";
import { pinLevel } from "../core/degradation.js";
import { ALL_APPS } from "../core/keys.js";
import { SHORT_GAP_MS } from "../engine/account.js";
import { leaveNode, refit, setEmergency } from "../engine/limit-changes.js";
import { updateLevel } from "../engine/node.js";
import { isReturnDue, MAX_APPS_PER_MESSAGE, type PlannedSync, planReturn, startMessage } from "../engine/plan.js";
import { recallTokens } from "../engine/reply.js";
import {
  type CallTimes,
  endSync,
  giveUpLate,
  giveUpWaiting,
  isSyncUrgent,
  planDue,
  syncFailed,
  syncSoon,
} from "../engine/sync-loop.js";
import { watchRecalls } from "../quota/recall-watch.js";
import { type Clock, replyTimer } from "../shared/clock.js";
import type { ReplyTimer } from "../shared/reply-timer.js";
import { StoreError } from "../store/errors.js";
import type { Accounts, LimiterAccount, LimiterNode } from "./accounts.js";
import type { LimiterObserver, ShardTarget } from "./limiter-contract.js";
import type { LimiterHost } from "./limiter-host.js";

export interface SyncerOptions {
  host: LimiterHost;
  clock: Clock;
  /** The name of the node. */
  name: string;
  /** The node on the shard. */
  node: LimiterNode;
  target: ShardTarget;
  observer: LimiterObserver;
  accounts: Accounts;
}

type Planned = PlannedSync<LimiterAccount>;

/** A process that is late by more may have replies that it has not read. */
const LATE_MS = 20;

export type Syncer = ReturnType<typeof createSyncer>;

export function createSyncer(options: SyncerOptions) {
  const { host, name, node, clock, observer, accounts } = options;
  let { target } = options;
  let lastLevel = 0;
  let inFlight: Promise<void> | undefined;
  /** Of the message in flight. */
  let call: { startedAt: number; timer: ReplyTimer } | undefined;
  let cancelGap = () => {};
  let gapEndsAt = 0;
  const { onRecall } = target;
  const stopWatching = onRecall === undefined ? () => {} : watchRecalls({ onRecall }, clock, recall);

  function level(): number {
    updateLevel(node, clock.now());
    observeLevel();
    return node.level;
  }

  function observeLevel(): void {
    const before = lastLevel;
    lastLevel = node.level;
    if (before !== lastLevel) observer.levelChanged?.(lastLevel, before, node.shard);
  }

  /** Other nodes need tokens of an app, or of all apps. */
  function recall(app: string): void {
    if (node.closed) return;
    const recalled = app === ALL_APPS ? accounts.inForce(node) : [accounts.find(app)];
    for (const account of recalled) if (account !== undefined) recallTokens(node, account);
    if (node.urgent.length > 0 && clock.now() >= node.retryAt) syncSoon(host, node);
  }

  /** Waiters ask again when the gap after a short reply is over, not at the next tick. */
  function tickAfterGap(): void {
    cancelGap();
    gapEndsAt = clock.now() + SHORT_GAP_MS;
    cancelGap = clock.after(SHORT_GAP_MS, tick);
  }

  function tick(): void {
    if (node.closed) return;
    if (!node.syncing && hasWaiters()) tickAfterGap();
    if (!mayHaveReply(clock.now())) giveUpLate(host, node);
    start();
  }

  /**
   * Whether this process was late before or after it sent the message, so that the store had no time for a reply, or this
   * process none to read it. Then the reply or its deadline decides the waiters.
   */
  function mayHaveReply(now: number): boolean {
    if (call === undefined) return false;
    const [sinceMs, missingMs] = [now - call.startedAt, call.timer.missingMs()];
    return missingMs < Math.min(sinceMs, LATE_MS) || sinceMs > missingMs + LATE_MS;
  }

  const hasWaiters = () => node.urgent.some((account) => account.waiters.length > 0);

  function start(): void {
    if (node.syncing) return;
    const now = clock.now();
    const planned = planDue(host, node, now);
    observeLevel();
    if (planned === undefined) return;
    node.syncing = true;
    call = { startedAt: now, timer: replyTimer(clock) };
    inFlight = exchange(planned, call.timer).finally(() => {
      node.syncing = false;
      call = undefined;
      if (node.closed) return;
      if (isSyncUrgent(node, clock.now())) start();
      else if (hasWaiters()) tickAfterGap();
    });
  }

  async function exchange(planned: Planned[], timer: ReplyTimer): Promise<void> {
    const answer = await send(planned).catch((error: unknown) => {
      fail(error, planned.length, timer.end());
      return undefined;
    });
    if (answer === undefined) return;
    // The store is measured without the delay of this process.
    const tookMs = timer.end();
    const { epoch } = node;
    for (const [i, one] of planned.entries()) one.reply = answer.apps[i];
    endSync(host, node, planned, answer, times(tookMs));
    if (node.epoch !== epoch) accounts.startEpoch(node);
    observer.synced?.("ok", tookMs, planned.length);
    observeLevel();
  }

  function times(tookMs: number): CallTimes {
    const now = clock.now();
    return { started: now - tookMs, now };
  }

  async function send(planned: Planned[]) {
    if (planned.length === 0) return { ...(await target.heartbeat({ node: name, epoch: node.epoch })), apps: [] };
    startMessage(node, planned);
    const requests = planned.map(({ account, message }) => ({
      ...message,
      app: account.limits,
      finalReport: message === account.finalReport,
    }));
    const sender = { node: name, epoch: node.epoch, seq: node.seq };
    return target.grant(sender, requests, { deadlineMs: node.options.timeoutMs });
  }

  function fail(error: unknown, apps: number, tookMs: number): void {
    const timedOut = error instanceof StoreError && error.kind === "timeout";
    syncFailed(host, node, timedOut, times(tookMs));
    observer.synced?.(timedOut ? "timeout" : "error", tookMs, apps, error);
    observeLevel();
  }

  async function close(): Promise<void> {
    if (node.closed) return;
    node.closed = true;
    cancelGap();
    stopWatching();
    giveUpWaiting(host, node);
    await inFlight;
    const due = accounts.all(node).filter(isReturnDue);
    // Nothing was ever sent to this shard.
    if (due.length === 0 && node.lastContact === 0 && node.seq === 0) return;
    do {
      const some = due.splice(0, MAX_APPS_PER_MESSAGE);
      const requests = some.map((account) => ({ ...planReturn(node, account).message, app: account.limits }));
      const sender = { node: name, epoch: node.epoch, seq: ++node.seq };
      try {
        await target.report(sender, requests, due.length === 0, { deadlineMs: node.options.timeoutMs });
      } catch (error) {
        // The store is unavailable: it recovers the tokens when it finds this node dead.
        observer.synced?.("error", 0, some.length, error);
        return;
      }
    } while (due.length > 0);
  }

  return {
    node,
    level,
    /** Sends what is due, unless a message is under way. */
    sync: start,
    /** To be called once per sync interval. */
    tick,
    /** Waiters need a message when the gap after a short reply is over. */
    syncAfterGap(): void {
      if (clock.now() >= gapEndsAt) tickAfterGap();
    },
    close,
    pinLevel: (pinned: number, durationMs: number) => pinLevel(node.degradation, pinned, clock.now() + durationMs),

    /** The state of a bucket in the store; undefined if the store does not reply. */
    inspect: (limits: AppLimits) => target.inspect?.(limits).catch(() => undefined),

    /** Adds tokens to a bucket in the store, as far as they fit. False if the store does not reply. */
    credit: async (limits: AppLimits, tokens: number, operation: string): Promise<boolean> =>
      target.credit === undefined ||
      target.credit(limits, tokens, operation).then(
        () => true,
        () => false,
      ),

    setEmergency(active: boolean): void {
      if (active === node.emergency) return;
      setEmergency(node, accounts.inForce(node), active, clock.now());
      host.emergencyChanged(node);
    },

    /** Applies new options. Excess tokens are returned at once; waiting requests are asked for again. */
    reconfigure(nextTarget: ShardTarget, removed: LimiterAccount[]): void {
      target = nextTarget;
      const now = clock.now();
      for (const account of accounts.inForce(node)) refit(node, account, now);
      for (const account of removed) if (account.node === node) leaveNode(node, account);
      syncSoon(host, node);
    },
  };
}
