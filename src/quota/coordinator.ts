/** The cluster-wide duties of a service: emergencies, reconciliation, and operator commands. */

import { randomUUID } from "node:crypto";
import type { BucketLimits } from "../core/app-limits.js";
import { BY_OPERATOR } from "../core/emergency.js";
import { type Clock, systemClock } from "../shared/clock.js";
import { StoreError } from "../store/errors.js";
import type { Store } from "../store/store.js";
import { createEmergencyWatch, type EmergencyState, NO_EMERGENCY } from "./emergency-watch.js";
import { createLock } from "./lock.js";
import type { Quota, ReconcileResult } from "./quota.js";
import { createReconcileRounds, type Round } from "./reconcile-rounds.js";
import { withRetries } from "./retry.js";
import { createShareRounds } from "./share-rounds.js";

/** What may change while the coordinator runs. */
export interface CoordinatorOptions {
  /** How long usage must stay low before an automatic emergency ends. */
  cooldownMs: number;
  /** Interval of reconciliation. */
  reconcileMs: number;
  /** Whether usage starts and ends an emergency. */
  automaticEmergency: boolean;
  /** Drift up to this fraction of the expected tokens is not corrected. */
  driftTolerance: number;
}

export interface CreateCoordinatorOptions extends CoordinatorOptions {
  quota: Quota;
  store: Store;
  clusterId: string;
  node: string;
  /** The currently configured apps. */
  apps(): BucketLimits[];
  clock?: Clock;
  /** Interval of the emergency check. Default 250. */
  checkMs?: number;
  observer?: CoordinatorObserver;
  /** From 0 to 1, for jitter. */
  random?: () => number;
}

/** Events for metrics and logs. Must not throw. */
export interface CoordinatorObserver {
  /** A change of activity, source or end. */
  emergencyChanged?(state: EmergencyState): void;
  /** Undefined: the set of nodes changed too often; the next round tries again. */
  reconciled?(app: string, result: ReconcileResult | undefined): void;
  roundEnded?(round: Round): void;
  failed?(doing: CoordinatorDuty, error: unknown): void;
}

export type CoordinatorDuty = "check" | "publish" | "subscribe" | "lock" | "reconcile" | "shares";

export type Coordinator = ReturnType<typeof createCoordinator>;

export function createCoordinator({
  quota,
  store,
  clusterId,
  node,
  apps,
  clock = systemClock,
  checkMs = 250,
  observer = {},
  random = Math.random,
  ...options
}: CreateCoordinatorOptions) {
  const counts = { rounds: 0, reconciledApps: 0, corrections: 0, recoveredTokens: 0 };
  let closing: Promise<void> | undefined;

  const failed = (doing: CoordinatorDuty, error: unknown) => observer.failed?.(doing, error);
  const changed = (state: EmergencyState) => observer.emergencyChanged?.(state);
  const shares = quota.shards.length === 1 ? undefined : startShareRounds();
  const watch = createEmergencyWatch({
    ...{ quota, store, clusterId, node, clock, random, failed, changed, checkMs, options },
    decides: () => shares?.holdsLock() ?? true,
  });
  const lock = createLock(store, clusterId, "reconcile", node);
  const rounds = createReconcileRounds({ quota, lock, apps, clock, random, failed, reconciled, options, ended });

  function startShareRounds() {
    return createShareRounds({
      quota,
      lock: createLock(store, clusterId, "shares", node),
      clock,
      apps,
      failed: (error) => failed("shares", error),
    });
  }

  function ended(round: Round): void {
    counts.rounds++;
    observer.roundEnded?.(round);
  }

  function reconciled(app: string, result: ReconcileResult | undefined): void {
    counts.reconciledApps++;
    counts.corrections += result?.correctionsMade ?? 0;
    counts.recoveredTokens += result?.recoveredTokens ?? 0;
    observer.reconciled?.(app, result);
  }

  function limitsOf(id: string): BucketLimits {
    const limits = apps().find((app) => app.id === id);
    if (limits === undefined) throw new Error(`the configuration has no app ${JSON.stringify(id.slice(0, 128))}`);
    return limits;
  }

  /** Retries a command under one operation id. */
  async function execute<T>(call: (operation: string) => Promise<T>): Promise<T> {
    if (closing !== undefined) throw new StoreError("closed", "the coordinator was closed");
    const operation = randomUUID();
    return withRetries(
      clock,
      () => closing !== undefined,
      () => call(operation),
    );
  }

  /** Nodes that miss the message learn the new state from the store. */
  async function announce(state: EmergencyState): Promise<void> {
    await watch.publish(state);
    await watch.check();
  }

  return {
    /** The known state, at most one check old. */
    emergency: watch.current,

    /** `durationMs` 0: no end. */
    async emergencyOn(durationMs: number, reason: string, operator: string) {
      const reply = await execute((operation) => quota.emergencyOn(durationMs, reason, operator, operation));
      const { sinceMs } = reply;
      const { burstsStopped } = watch.current();
      await announce({
        ...{ active: true, source: BY_OPERATOR, sinceMs, leftMs: durationMs, burstsStopped, reason, operator },
      });
      return reply;
    },

    /** Usage that is still high starts it again, unless the automatic emergency is disabled. */
    async emergencyOff() {
      const reply = await execute((operation) => quota.emergencyOff(operation));
      await announce(NO_EMERGENCY);
      return reply;
    },

    /** With `force`, corrects any drift. Undefined: the set of nodes changed too often, try again. */
    async reconcileNow(app: string, force: boolean): Promise<ReconcileResult | undefined> {
      const limits = limitsOf(app);
      const result = await execute((operation) =>
        quota.reconcile(limits, { tolerance: options.driftTolerance, force, operation }),
      );
      reconciled(app, result);
      return result;
    },

    async borrow(app: string, amount: number) {
      const limits = limitsOf(app);
      return execute((operation) => quota.borrow(limits, amount, operation));
    },

    async repay(app: string, amount: number) {
      const limits = limitsOf(app);
      return execute((operation) => quota.repay(limits, amount, operation));
    },

    /** Fills L1. What nodes hold of each app is first corrected by their ledgers, as far as that succeeds. */
    async refillCluster() {
      const all = apps();
      const how = { tolerance: options.driftTolerance, force: false };
      for (const app of all) await execute((operation) => quota.reconcile(app, { ...how, operation }));
      return execute((operation) => quota.refill(all, operation));
    },

    /** Applies from the next check and the next round on. */
    reconfigure(changed: CoordinatorOptions): void {
      Object.assign(options, changed);
    },

    /** Totals since the start of this service. */
    stats: () => ({ ...counts }),

    /** Finishes running work and releases the lock. Never rejects. */
    close(): Promise<void> {
      closing ??= Promise.all([watch.close(), rounds.close(), shares?.close()]).then(() => undefined);
      return closing;
    },
  };
}
