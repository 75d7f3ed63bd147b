/** Reconciles all apps once per interval, by one node at a time: who has the lock does it, the others wait for its end. */

import { randomUUID } from "node:crypto";
import { MAX_TOKENS } from "../core/bucket.js";
import type { BucketLimits } from "../core/limits.js";
import type { Clock } from "../shared/clock.js";
import type { Lock } from "./lock.js";
import { isPassing, pause, persist } from "./persist.js";
import type { Quota, ReconcileResult } from "./quota.js";

export interface Round {
  /** Apps that were looked at, and those of them that could not be. */
  apps: number;
  failedApps: number;
  corrections: number;
  recoveredTokens: number;
  /** "lost": the lock passed to another node meanwhile. "failed": the store was gone for too long. */
  end: "complete" | "lost" | "failed" | "closed";
  ms: number;
}

export interface ReconcileRoundsOptions {
  quota: Pick<Quota, "nodes" | "ledger" | "reconcile">;
  lock: Lock;
  apps(): BucketLimits[];
  clock: Clock;
  random(): number;
  /** As they are now. Drift as a part of what the bucket should hold; more is corrected. */
  settings(): { intervalMs: number; tolerance: number };
  reconciled(app: string, result: ReconcileResult | undefined): void;
  ended(round: Round): void;
  failed(doing: "lock" | "reconcile", error: unknown): void;
}

interface Job {
  app: BucketLimits;
  tolerance: number;
}

/** Nodes do not all come at the same moment: each adds up to this part of the interval. */
const JITTER = 0.1;
const FIRST_PAUSE_MS = 1000;
/** A node that dies in the middle of a round is replaced after this time; one that works renews the lock. */
const ROUND_TTL_MS = 30000;
/** The embedded store answers without ever letting go: after so many apps, others get their turn. */
const APPS_PER_TURN = 20;
/**
 * An app that is no longer configured here, though perhaps still elsewhere: its tokens go back, its bucket loses
 * nothing, and its drift is left alone.
 */
const FORGOTTEN = { guaranteed: 0, burst: MAX_TOKENS, priority: 0, borrow: false };
const ANY_DRIFT = 1;

export function createReconcileRounds(options: ReconcileRoundsOptions) {
  const { quota, lock, clock } = options;
  const intervalMs = () => options.settings().intervalMs;
  const ttlMs = () => Math.min(ROUND_TTL_MS, intervalMs());
  let running: Promise<void> | undefined;
  let closed = false;
  /** A lock may be ours even if we never heard so. */
  let mayHold = false;
  let failures = 0;
  let stopWaiting = wait(0);

  const insist = <T>(call: () => Promise<T>) => persist(clock, () => closed, call);

  function wait(ms: number): () => void {
    return clock.after(ms + options.random() * JITTER * intervalMs(), () => {
      running = attempt().then((pauseMs) => {
        running = undefined;
        if (!closed) stopWaiting = wait(pauseMs);
      });
    });
  }

  /** Answers how long to wait until the next attempt. */
  async function attempt(): Promise<number> {
    try {
      mayHold = true;
      const { ours, leftMs } = await lock.take(ttlMs());
      mayHold = ours;
      if (!ours) return leftMs;
      if (closed) return 0;
      const round = await runRound();
      options.ended(round);
      if (round.end === "failed") return backOff();
      // From here on the lock is the sign that this interval is taken care of, also when its owner is gone.
      if (round.end === "complete") await lock.take(intervalMs());
    } catch (error) {
      options.failed("lock", error);
      return backOff();
    }
    failures = 0;
    return intervalMs();
  }

  function backOff(): number {
    return Math.min(FIRST_PAUSE_MS * 2 ** failures++, intervalMs());
  }

  async function runRound(): Promise<Round> {
    const begun = clock.now();
    const round: Round = { apps: 0, failedApps: 0, corrections: 0, recoveredTokens: 0, end: "complete", ms: 0 };
    try {
      round.end = await reconcileAll(round);
    } catch (error) {
      round.end = closed ? "closed" : "failed";
      options.failed("reconcile", error);
    }
    round.ms = clock.now() - begun;
    return round;
  }

  async function reconcileAll(round: Round): Promise<Round["end"]> {
    let takenAt = clock.now();
    for (const job of await jobs()) {
      if (closed) return "closed";
      if (clock.now() - takenAt > ttlMs() / 3) {
        mayHold = (await insist(() => lock.take(ttlMs()))).ours;
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
      const result = await insist(() => quota.reconcile(app, how));
      round.corrections += result?.correctionsMade ?? 0;
      round.recoveredTokens += result?.recoveredTokens ?? 0;
      options.reconciled(app.id, result);
    } catch (error) {
      round.failedApps++;
      // A store that is gone ends the round; what is wrong with one app does not concern the others.
      if (isPassing(error)) throw error;
      options.failed("reconcile", error);
    }
  }

  /** The apps that are configured, and those that are not but of which dead nodes still hold tokens. */
  async function jobs(): Promise<Job[]> {
    const configured = options.apps();
    const { tolerance } = options.settings();
    const ids = new Set(configured.map((app) => app.id));
    const forgotten = new Set<string>();
    for (const { node, alive } of await insist(() => quota.nodes())) {
      if (alive) continue;
      const ledger = await insist(() => quota.ledger(node));
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
    /** Ends after the app that is being looked at. */
    async close(): Promise<void> {
      closed = true;
      stopWaiting();
      await running;
      if (!mayHold) return;
      await lock.release().catch((error: unknown) => options.failed("lock", error));
    },
  };
}
