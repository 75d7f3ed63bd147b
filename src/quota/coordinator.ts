/** What a service does for the whole cluster: emergencies, reconciliation, and the orders of operators. */

import { randomUUID } from "node:crypto";
import { BY_NOBODY, BY_OPERATOR } from "../core/emergency.js";
import type { BucketLimits } from "../core/limits.js";
import { type Clock, systemClock } from "../shared/clock.js";
import { StoreError } from "../store/errors.js";
import type { Store, Unsubscribe } from "../store/store.js";
import { createEmergencyWatch, type EmergencyState } from "./emergency-watch.js";
import { createLock } from "./lock.js";
import { persist } from "./persist.js";
import type { Quota, ReconcileResult } from "./quota.js";
import { createReconcileRounds, type Round } from "./reconcile-rounds.js";

export interface CoordinatorOptions {
  quota: Quota;
  store: Store;
  clusterId: string;
  node: string;
  /** The apps of the configuration, as they are now. */
  apps(): BucketLimits[];
  clock?: Clock;
  settings?: Partial<CoordinatorSettings>;
  observer?: CoordinatorObserver;
  /** From 0 to 1, for pauses that differ between nodes. */
  random?: () => number;
}

export interface CoordinatorSettings {
  /** How often to look at the emergency; also what moves the clock of the nodes. Default 250, and fixed. */
  checkMs: number;
  /** How long usage must be low before an automatic emergency ends. Default 30,000. */
  cooldownMs: number;
  /** How often all apps are reconciled. Default 60,000. */
  reconcileMs: number;
  /** Whether an emergency begins and ends by usage. Default: it does. */
  automaticEmergency: boolean;
  /** Drift up to this part of what the bucket should hold is left alone. Default 0.1. */
  driftTolerance: number;
}

/** What is worth a metric or a line in the log. Must not throw. */
export interface CoordinatorObserver {
  emergencyChanged?(state: EmergencyState): void;
  emergencyOrdered?(order: EmergencyOrder): void;
  /** Undefined: nodes came and went too fast; the next round tries again. */
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
    super(`there is no app ${JSON.stringify(app.slice(0, 128))} in the configuration`);
    this.name = "UnknownApp";
    this.app = app;
  }
}

const DEFAULTS: CoordinatorSettings = {
  ...{ checkMs: 250, cooldownMs: 30_000, reconcileMs: 60_000 },
  ...{ automaticEmergency: true, driftTolerance: 0.1 },
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
    ...{ quota, store, clusterId, clock, random, failed, changed },
    checkMs: settings.checkMs,
    settings: () => ({ cooldownMs: settings.cooldownMs, automatic: settings.automaticEmergency }),
  });
  const rounds = createReconcileRounds({
    ...{ quota, apps, clock, random, failed, reconciled },
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

  function policyOf(id: string): BucketLimits {
    const policy = apps().find((app) => app.id === id);
    if (policy === undefined) throw new UnknownApp(id);
    return policy;
  }

  /** One operation with one id, however often it has to be sent. */
  async function order<T>(call: (operation: string) => Promise<T>): Promise<T> {
    if (closing !== undefined) throw new StoreError("closed", "the coordinator was closed");
    const operation = randomUUID();
    return persist(
      clock,
      () => closing !== undefined,
      () => call(operation),
    );
  }

  /** The order has been carried out; nodes that do not hear of it now learn it from the store. */
  async function announce(state: EmergencyState, own: Omit<EmergencyOrder, "active">): Promise<void> {
    observer.emergencyOrdered?.({ active: state.active, ...own });
    await watch.say(state);
    await watch.check();
  }

  return {
    /** What this node knows; at most one check old. */
    emergency: watch.current,

    /** Calls the handler whenever this node learns of a change: on, off, another source or another end. */
    onEmergency(handler: (state: EmergencyState) => void): Unsubscribe {
      const entry = { handler };
      handlers.add(entry);
      return () => void handlers.delete(entry);
    },

    /** `durationMs` 0: until it is turned off. */
    async emergencyOn(durationMs: number, reason: string, operator: string) {
      const answer = await order((operation) => quota.emergencyOn(durationMs, reason, operator, operation));
      const state = { active: true, source: BY_OPERATOR, sinceMs: answer.sinceMs, leftMs: durationMs };
      await announce(state, { operator, reason, durationMs });
      return answer;
    },

    /** Usage that is still above the line turns it on again, unless that is switched off. */
    async emergencyOff(operator: string, reason: string) {
      const answer = await order((operation) => quota.emergencyOff(operation));
      await announce({ active: false, source: BY_NOBODY, sinceMs: 0, leftMs: 0 }, { operator, reason, durationMs: 0 });
      return answer;
    },

    /** Brings one app in line now; with `force`, whatever its drift. Undefined: try again, nodes come and go. */
    async reconcileNow(app: string, force: boolean): Promise<ReconcileResult | undefined> {
      const policy = policyOf(app);
      const result = await order((operation) =>
        quota.reconcile(policy, { tolerance: settings.driftTolerance, force, operation }),
      );
      reconciled(app, result);
      return result;
    },

    async borrow(app: string, amount: number) {
      const policy = policyOf(app);
      return order((operation) => quota.borrow(policy, amount, operation));
    },

    async repay(app: string, amount: number) {
      const policy = policyOf(app);
      return order((operation) => quota.repay(policy, amount, operation));
    },

    /** Holds from the next look and the next round on. */
    reconfigure(changed: Partial<Omit<CoordinatorSettings, "checkMs">>): void {
      settings = { ...settings, ...changed };
    },

    /** Totals of this node since it began. */
    stats: () => ({ ...counts }),

    /** Finishes what is being done, stops the rest and gives the lock to others. Never rejects. */
    close(): Promise<void> {
      closing ??= Promise.all([watch.close(), rounds.close()]).then(() => undefined);
      return closing;
    },
  };
}

/** A node in one life of it: a restarted one is another owner. */
function lockOwner(node: string): string {
  return `${node.replace(/[^A-Za-z0-9._:-]/g, "_").slice(0, 80)}:${randomUUID()}`;
}
