/** The cluster-wide duties of a service: emergencies, reconciliation, and operator commands. */

import { randomUUID } from "node:crypto";
import { BY_NOBODY, BY_OPERATOR } from "../core/emergency.js";
import type { BucketLimits } from "../core/limits.js";
import { type Clock, systemClock } from "../shared/clock.js";
import { StoreError } from "../store/errors.js";
import type { Store, Unsubscribe } from "../store/store.js";
import { createEmergencyWatch, type EmergencyState } from "./emergency-watch.js";
import { createLock } from "./lock.js";
import type { Quota, ReconcileResult } from "./quota.js";
import { createReconcileRounds, type Round } from "./reconcile-rounds.js";
import { withRetries } from "./retry.js";

export interface CoordinatorOptions {
  quota: Quota;
  store: Store;
  clusterId: string;
  node: string;
  /** The currently configured apps. */
  apps(): BucketLimits[];
  clock?: Clock;
  settings?: Partial<CoordinatorSettings>;
  observer?: CoordinatorObserver;
  /** From 0 to 1, for jitter. */
  random?: () => number;
}

export interface CoordinatorSettings {
  /** Interval of the emergency check. Default 250; cannot be reconfigured. */
  checkMs: number;
  /** How long usage must stay low before an automatic emergency ends. Default 30,000. */
  cooldownMs: number;
  /** Interval of reconciliation. Default 60,000. */
  reconcileMs: number;
  /** Whether usage starts and ends an emergency. Default true. */
  automaticEmergency: boolean;
  /** Drift up to this fraction of the expected tokens is not corrected. Default 0.1. */
  driftTolerance: number;
}

/** Events for metrics and logs. Must not throw. */
export interface CoordinatorObserver {
  emergencyChanged?(state: EmergencyState): void;
  emergencyOrdered?(order: EmergencyOrder): void;
  /** Undefined: the set of nodes changed too often; the next round tries again. */
  reconciled?(app: string, result: ReconcileResult | undefined): void;
  roundEnded?(round: Round): void;
  failed?(doing: CoordinatorDuty, error: unknown): void;
}

export interface EmergencyOrder {
  active: boolean;
  operator: string;
  reason: string;
  durationMs: number;
}

export type CoordinatorDuty = "check" | "publish" | "subscribe" | "lock" | "reconcile" | "handler";

export class UnknownApp extends Error {
  readonly app: string;

  constructor(app: string) {
    super(`the configuration has no app ${JSON.stringify(app.slice(0, 128))}`);
    this.name = "UnknownApp";
    this.app = app;
  }
}

const DEFAULTS: CoordinatorSettings = {
  checkMs: 250,
  cooldownMs: 30_000,
  reconcileMs: 60_000,
  automaticEmergency: true,
  driftTolerance: 0.1,
};
const RECONCILE_LOCK = "reconcile";

export type Coordinator = ReturnType<typeof createCoordinator>;

export function createCoordinator(options: CoordinatorOptions) {
  const { quota, store, clusterId, apps, clock = systemClock, random = Math.random, observer = {} } = options;
  let settings: CoordinatorSettings = { ...DEFAULTS, ...options.settings };
  const handlers = new Set<{ handler: (state: EmergencyState) => void }>();
  const counts = { rounds: 0, reconciledApps: 0, corrections: 0, recoveredTokens: 0 };
  let closing: Promise<void> | undefined;

  const failed = (doing: CoordinatorDuty, error: unknown) => observer.failed?.(doing, error);
  const watch = createEmergencyWatch({
    quota,
    store,
    clusterId,
    clock,
    random,
    failed,
    changed,
    checkMs: settings.checkMs,
    settings: () => ({ cooldownMs: settings.cooldownMs, automatic: settings.automaticEmergency }),
  });
  const rounds = createReconcileRounds({
    quota,
    apps,
    clock,
    random,
    failed,
    reconciled,
    lock: createLock(store, clusterId, RECONCILE_LOCK, lockOwner(options.node)),
    settings: () => ({ intervalMs: settings.reconcileMs, tolerance: settings.driftTolerance }),
    ended(round) {
      counts.rounds++;
      observer.roundEnded?.(round);
    },
  });

  function changed(state: EmergencyState): void {
    observer.emergencyChanged?.(state);
    for (const { handler } of [...handlers]) {
      try {
        handler(state);
      } catch (error) {
        failed("handler", error);
      }
    }
  }

  function reconciled(app: string, result: ReconcileResult | undefined): void {
    counts.reconciledApps++;
    counts.corrections += result?.correctionsMade ?? 0;
    counts.recoveredTokens += result?.recoveredTokens ?? 0;
    observer.reconciled?.(app, result);
  }

  function limitsOf(id: string): BucketLimits {
    const limits = apps().find((app) => app.id === id);
    if (limits === undefined) throw new UnknownApp(id);
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
  async function announce(state: EmergencyState, own: Omit<EmergencyOrder, "active">): Promise<void> {
    observer.emergencyOrdered?.({ active: state.active, ...own });
    await watch.publish(state);
    await watch.check();
  }

  return {
    /** The known state, at most one check old. */
    emergency: watch.current,

    /** Calls the handler for every change of activity, source or end. */
    onEmergency(handler: (state: EmergencyState) => void): Unsubscribe {
      const entry = { handler };
      handlers.add(entry);
      return () => void handlers.delete(entry);
    },

    /** `durationMs` 0: no end. */
    async emergencyOn(durationMs: number, reason: string, operator: string) {
      const reply = await execute((operation) => quota.emergencyOn(durationMs, reason, operator, operation));
      const state = { active: true, source: BY_OPERATOR, sinceMs: reply.sinceMs, leftMs: durationMs };
      await announce(state, { operator, reason, durationMs });
      return reply;
    },

    /** Usage that is still high starts it again, unless the automatic emergency is disabled. */
    async emergencyOff(operator: string, reason: string) {
      const reply = await execute((operation) => quota.emergencyOff(operation));
      await announce({ active: false, source: BY_NOBODY, sinceMs: 0, leftMs: 0 }, { operator, reason, durationMs: 0 });
      return reply;
    },

    /** With `force`, corrects any drift. Undefined: the set of nodes changed too often, try again. */
    async reconcileNow(app: string, force: boolean): Promise<ReconcileResult | undefined> {
      const limits = limitsOf(app);
      const result = await execute((operation) =>
        quota.reconcile(limits, { tolerance: settings.driftTolerance, force, operation }),
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

    /** Applies from the next check and the next round on. */
    reconfigure(changed: Partial<Omit<CoordinatorSettings, "checkMs">>): void {
      settings = { ...settings, ...changed };
    },

    /** Totals since the start of this service. */
    stats: () => ({ ...counts }),

    /** Finishes running work and releases the lock. Never rejects. */
    close(): Promise<void> {
      closing ??= Promise.all([watch.close(), rounds.close()]).then(() => undefined);
      return closing;
    },
  };
}

/** Unique per process: a restarted service is another owner. */
function lockOwner(node: string): string {
  return `${node.replace(/[^A-Za-z0-9._:-]/g, "_").slice(0, 80)}:${randomUUID()}`;
}
