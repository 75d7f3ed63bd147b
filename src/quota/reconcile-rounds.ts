/** Reconciles all apps once per interval. The service that holds the lock does it, the others wait for its expiry. */
import { randomUUID } from "node:crypto";
import { MAX_TOKENS } from "../core/bucket.js";
import { INVALID_ARGUMENT, OK } from "../core/codes.js";
import { lockKey } from "../core/keys.js";
import type { BucketLimits } from "../core/limits.js";
import type { Clock } from "../shared/clock.js";
import { InvalidArgument } from "../store/errors.js";
import type { Store } from "../store/store.js";
import type { Quota, ReconcileResult } from "./quota.js";
import { isTransient, pause, withRetries } from "./retry.js";

export interface Round {
  /** Apps processed, including failed ones. */
  apps: number;
  failedApps: number;
  /** "lost": another service acquired the lock. "failed": the store was unavailable for too long. */
  end: "complete" | "lost" | "failed" | "closed";
}

export interface ReconcileRoundsOptions {
  quota: Pick<Quota, "nodes" | "ledger" | "reconcile">;
  lock: ReturnType<typeof createLock>;
  apps(): BucketLimits[];
  clock: Clock;
  random(): number;
  /** Current values. Drift above the tolerance, a fraction of the expected tokens, is corrected. */
  options: { reconcileMs: number; driftTolerance: number };
  reconciled(app: string, result: ReconcileResult | undefined): void;
  ended(round: Round): void;
  failed(doing: "lock" | "reconcile", error: unknown): void;
}

interface Job {
  app: BucketLimits;
  tolerance: number;
}

/** Random extra delay as a fraction of the interval, so that services do not act at the same time. */
const JITTER = 0.1;
const FIRST_PAUSE_MS = 1000;
/** If a service dies during a round, another one takes over after this time. A running round renews the lock. */
const ROUND_TTL_MS = 30_000;
/** The embedded store never yields to the event loop, so a round pauses after this many apps. */
const APPS_PER_TURN = 20;
/** For an app that is not configured here but may be elsewhere: return its tokens, but correct no drift. */
const FORGOTTEN = { guaranteed: 0, burst: MAX_TOKENS, priority: 0, borrow: false };
const ANY_DRIFT = 1;

/** The lock for one round per interval. Its owner is unique per process: a restarted service is another owner. */
export function createLock(store: Store, clusterId: string, node: string) {
  const key = lockKey(clusterId, "reconcile");
  const owner = `${node.replace(/[^A-Za-z0-9._:-]/g, "_").slice(0, 80)}:${randomUUID()}`;
  async function run(ttlMs: number, what: number) {
    const [code, left] = await store.run("lock", [key], [owner, ttlMs, what]);
    if (code === INVALID_ARGUMENT) throw new InvalidArgument("lock", String(left));
    return { ours: code === OK, leftMs: Number(left) };
  }
  return {
    /** Acquires or renews it. `leftMs`: remaining time of the current holder, this owner or another. */
    take: (ttlMs: number) => run(ttlMs, 0),
    /** Has no effect if another owner holds it. */
    release: () => run(1, 1),
  };
}

export function createReconcileRounds(parts: ReconcileRoundsOptions) {
  const { quota, lock, clock, options, failed } = parts;
  const intervalMs = () => options.reconcileMs;
  const ttlMs = () => Math.min(ROUND_TTL_MS, intervalMs());
  let running: Promise<void> | undefined;
  let closed = false;
  /** True also if the reply to an acquire call was lost. */
  let mayHold = false;
  let failures = 0;
  let cancelWait = wait(0);

  const retried = <T>(call: () => Promise<T>) => withRetries(clock, () => closed, call);

  function wait(ms: number): () => void {
    return clock.after(ms + parts.random() * JITTER * intervalMs(), () => {
      running = attempt().then((pauseMs) => {
        running = undefined;
        if (!closed) cancelWait = wait(pauseMs);
      });
    });
  }

  /** Returns the delay until the next attempt. */
  async function attempt(): Promise<number> {
    try {
      mayHold = true;
      const { ours, leftMs } = await lock.take(ttlMs());
      mayHold = ours;
      if (!ours) return leftMs;
      if (closed) return 0;
      const round = await runRound();
      parts.ended(round);
      if (round.end === "failed") return backOff();
      // The lock now marks this interval as done, even if its owner dies.
      if (round.end === "complete") await lock.take(intervalMs());
    } catch (error) {
      failed("lock", error);
      return backOff();
    }
    failures = 0;
    return intervalMs();
  }

  function backOff(): number {
    return Math.min(FIRST_PAUSE_MS * 2 ** failures++, intervalMs());
  }

  async function runRound(): Promise<Round> {
    const round: Round = { apps: 0, failedApps: 0, end: "complete" };
    try {
      round.end = await reconcileAll(round);
    } catch (error) {
      round.end = closed ? "closed" : "failed";
      failed("reconcile", error);
    }
    return round;
  }

  async function reconcileAll(round: Round): Promise<Round["end"]> {
    let takenAt = clock.now();
    for (const job of await jobs()) {
      if (closed) return "closed";
      if (clock.now() - takenAt > ttlMs() / 3) {
        mayHold = (await retried(() => lock.take(ttlMs()))).ours;
        if (!mayHold) return "lost";
        takenAt = clock.now();
      }
      await reconcileOne(job, round);
      if (round.apps % APPS_PER_TURN === 0) await pause(clock, 0);
    }
    return "complete";
  }

  async function reconcileOne({ app, tolerance }: Job, round: Round): Promise<void> {
    const how = { tolerance, force: false, operation: randomUUID() };
    round.apps++;
    try {
      const result = await retried(() => quota.reconcile(app, how));
      parts.reconciled(app.id, result);
    } catch (error) {
      round.failedApps++;
      // An unavailable store ends the round; an error of one app does not.
      if (isTransient(error)) throw error;
      failed("reconcile", error);
    }
  }

  /** The configured apps, and other apps of which dead nodes hold tokens. */
  async function jobs(): Promise<Job[]> {
    const configured = parts.apps();
    const tolerance = options.driftTolerance;
    const ids = new Set(configured.map((app) => app.id));
    const forgotten = new Set<string>();
    for (const { node, alive } of await retried(() => quota.nodes())) {
      if (alive) continue;
      const ledger = await retried(() => quota.ledger(node));
      for (const { app, granted, spent, returned } of ledger.apps) {
        if (granted > spent + returned && !ids.has(app)) forgotten.add(app);
      }
    }
    return [
      ...configured.map((app) => ({ app, tolerance })),
      ...[...forgotten].sort().map((id) => ({ app: { id, ...FORGOTTEN }, tolerance: ANY_DRIFT })),
    ];
  }

  return {
    /** Finishes the current app, then stops. */
    async close(): Promise<void> {
      closed = true;
      cancelWait();
      await running;
      if (!mayHold) return;
      await lock.release().catch((error: unknown) => failed("lock", error));
    },
  };
}
