/** Sends the syncs of a limiter with one shard: one at a time for its accounts, on a timer or when a request needs tokens. */

import type { AppLimits } from "../core/app-limits.js";
import { pinLevel } from "../core/degradation.js";
import { ALL_APPS } from "../core/keys.js";
import { isShort, SHORT_GAP_MS } from "../engine/account.js";
import { lastsUntilNextSync } from "../engine/decide.js";
import { newEpoch } from "../engine/epoch.js";
import { leaveNode, refit, setEmergency } from "../engine/limit-changes.js";
import { takeDecided, updateLevel, urge } from "../engine/node.js";
import {
  isMessageDue,
  isReturnDue,
  MAX_APPS_PER_MESSAGE,
  type PlannedSync,
  planMessage,
  planReturn,
  startMessage,
} from "../engine/plan.js";
import { applyReplies, failSync, recallTokens, serveReplies } from "../engine/reply.js";
import { giveUpAll, giveUpExpired } from "../engine/waiters.js";
import { watchRecalls } from "../quota/recall-watch.js";
import { replyTimer } from "../shared/clock.js";
import type { ReplyTimer } from "../shared/reply-timer.js";
import { StoreError } from "../store/errors.js";
import type { Accounts, LimiterAccount, LimiterNode } from "./accounts.js";
import type { LimiterObserver, LimiterOptions, ShardTarget } from "./limiter-contract.js";

export interface SyncerOptions extends Required<Pick<LimiterOptions, "clock" | "defer">> {
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

export const nextEpoch = (before: number) => newEpoch(before, Date.now(), Math.random());

export function createSyncer(options: SyncerOptions) {
  const { name, node, clock, observer, accounts } = options;
  let { target } = options;
  let lastLevel = 0;
  let inFlight: Promise<void> | undefined;
  /** Of the message in flight. */
  let call: { startedAt: number; timer: ReplyTimer } | undefined;
  let soon = false;
  let cancelGap = () => {};
  let gapEndsAt = 0;
  const { onRecall } = target;
  const stopWatching = onRecall === undefined ? () => {} : watchRecalls({ onRecall }, clock, recall);

  const all = () => accounts.all(node);

  function level(): number {
    node.clock = clock.now();
    updateLevel(node, node.clock);
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
    if (node.urgent.length > 0 && clock.now() >= node.retryAt && inFlight === undefined) startSoon();
  }

  /** Starts a sync at the end of this turn of the event loop, so that all misses in it share one message. */
  function wake(account: LimiterAccount): void {
    urge(node, account);
    if (soon || inFlight !== undefined || node.closed || lastsUntilNextSync(node, account)) return;
    const now = clock.now();
    if (now < node.retryAt) return;
    if (!isShort(account, now)) startSoon();
    else if (account.waiters.length > 0 && now >= gapEndsAt) tickAfterGap();
  }

  function startSoon(): void {
    if (soon) return;
    soon = true;
    options.defer(() => {
      soon = false;
      start();
    });
  }

  /** Waiters ask again when the gap after a short reply is over, not at the next tick. */
  function tickAfterGap(): void {
    cancelGap();
    gapEndsAt = clock.now() + SHORT_GAP_MS;
    cancelGap = clock.after(SHORT_GAP_MS, tick);
  }

  function tick(): void {
    if (node.closed) return;
    if (inFlight === undefined && hasWaiters()) tickAfterGap();
    const now = clock.now();
    if (!mayHaveReply(now)) for (const account of node.active) giveUpExpired(node, account, now);
    wakeDecided();
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

  function wakeDecided(): void {
    for (const waiter of takeDecided(node)) waiter.wake();
  }

  function start(): void {
    const now = clock.now();
    if (node.closed || inFlight !== undefined || now < node.retryAt) return;
    level();
    const planned = planMessage(node, now);
    for (const account of node.departed) accounts.forget(account);
    if (!isMessageDue(node, planned, now)) return;
    call = { startedAt: now, timer: replyTimer(clock) };
    inFlight = exchange(planned, call.timer).finally(() => {
      inFlight = undefined;
      call = undefined;
      if (node.closed) return;
      if (node.epochClosed || isUrgent()) start();
      else if (hasWaiters()) tickAfterGap();
    });
  }

  function isUrgent(): boolean {
    const now = clock.now();
    if (now < node.retryAt) return false;
    return node.urgent.some((account) => !isShort(account, now) && !lastsUntilNextSync(node, account));
  }

  async function exchange(planned: Planned[], timer: ReplyTimer): Promise<void> {
    const answer = await send(planned).catch((error: unknown) => {
      fail(error, planned.length, timer.end());
      return undefined;
    });
    if (answer === undefined) return;
    const now = clock.now();
    // The store is measured without the delay of this process.
    const tookMs = timer.end();
    const started = now - tookMs;
    const { epoch, emergency } = node;
    for (const [i, one] of planned.entries()) one.reply = answer.apps[i];
    applyReplies(node, { planned, answer, started, now, nextEpoch: nextEpoch(epoch), accounts: all });
    if (node.epoch !== epoch) accounts.startEpoch(node);
    serveReplies(node, planned);
    observer.synced?.("ok", tookMs, planned.length);
    if (node.emergency !== emergency) observer.emergencyChanged?.(node.emergency);
    observeLevel();
    wakeDecided();
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
    const now = clock.now();
    const timedOut = error instanceof StoreError && error.kind === "timeout";
    failSync(node, { timedOut, started: now - tookMs, now, random: Math.random() });
    observer.synced?.(timedOut ? "timeout" : "error", tookMs, apps, error);
    observeLevel();
    wakeDecided();
  }

  async function close(): Promise<void> {
    if (node.closed) return;
    node.closed = true;
    cancelGap();
    stopWatching();
    const now = clock.now();
    for (const account of node.active) giveUpAll(node, account, now);
    wakeDecided();
    await inFlight;
    const due = all().filter(isReturnDue);
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
    wake,
    /** To be called once per sync interval. */
    tick,
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
      observer.emergencyChanged?.(active);
    },

    /** Applies new options. Excess tokens are returned at once; waiting requests are asked for again. */
    reconfigure(nextTarget: ShardTarget, removed: LimiterAccount[]): void {
      target = nextTarget;
      const now = clock.now();
      for (const account of accounts.inForce(node)) refit(node, account, now);
      for (const account of removed) if (account.node === node) leaveNode(node, account);
      if (inFlight === undefined) startSoon();
    },
  };
}
