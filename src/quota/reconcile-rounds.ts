/** Reconciles all apps once per interval. The service that holds the lock does it, the others wait for its expiry. */
import { randomUUID } from "node:crypto";
import type { BucketLimits } from "../core/app-limits.js";
import { MAX_TOKENS } from "../core/bucket.js";
import { isLimitBucket } from "../core/keys.js";
import type { Clock } from "../shared/clock.js";
import type { Lock } from "./lock.js";
import type { Quota } from "./quota.js";
import { isTransient, pause, withRetries } from "./retry.js";
import type { ReconcileResult, ShardQuota } from "./shard-quota.js";

export interface Round {
  /** Apps processed, including failed ones. */
  apps: number;
  failedApps: number;
  /** "lost": another service acquired the lock. "failed": the store was unavailable for too long. */
  end: "complete" | "lost" | "failed" | "closed";
}

export interface ReconcileRoundsOptions {
  quota: Pick<Quota, "shards" | "of">;
  lock: Lock;
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
  shard: ShardQuota;
  app: BucketLimits;
  tolerance: number;
  /** Only removes dead nodes from the shard, of which no app is reconciled. */
  onlyNodes?: boolean;
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
/** The bucket of a value or descriptor is kept for so long after its tokens were returned. */
const LIMIT_SECONDS = 86_400;
const ANY_DRIFT = 1;
/** Stands for the apps of a shard without any. It has no bucket, and gets none. */
const NO_APP: BucketLimits = { id: "none", ...FORGOTTEN };

/** L1 neither paid for the tokens of values and descriptors nor counts them, so they must not be taken for an app's. */
function forgottenLimits(id: string): BucketLimits {
  return isLimitBucket(id) ? { id, ...FORGOTTEN, fillSeconds: LIMIT_SECONDS } : { id, ...FORGOTTEN };
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
    /** Shards that do not reply. The round goes on with the others. */
    const away = new Set<ShardQuota>();
    for (const job of await jobs(away)) {
      if (closed) return "closed";
      if (clock.now() - takenAt > ttlMs() / 3) {
        mayHold = (await retried(() => lock.take(ttlMs()))).ours;
        if (!mayHold) return "lost";
        takenAt = clock.now();
      }
      await reconcileOne(job, round, away);
      if (round.apps % APPS_PER_TURN === 0) await pause(clock, 0);
    }
    return "complete";
  }

  async function reconcileOne(job: Job, round: Round, away: Set<ShardQuota>): Promise<void> {
    const { shard, app, tolerance, onlyNodes = false } = job;
    const how = { tolerance, force: false, operation: randomUUID() };
    if (!onlyNodes) round.apps++;
    if (away.has(shard)) {
      round.failedApps++;
      return;
    }
    try {
      const result = await retried(() => shard.reconcile(app, how));
      if (!onlyNodes) parts.reconciled(app.id, result);
    } catch (error) {
      round.failedApps++;
      if (isTransient(error)) leaveOut(shard, away, error);
      else failed("reconcile", error);
    }
  }

  /** An unavailable store ends the round; an unavailable shard does not. */
  function leaveOut(shard: ShardQuota, away: Set<ShardQuota>, error: unknown): void {
    if (!isTransient(error) || away.add(shard).size === quota.shards.length) throw error;
    failed("reconcile", error);
  }

  /** The configured apps, other apps of which dead nodes hold tokens, and shards without apps that list dead nodes. */
  async function jobs(away: Set<ShardQuota>): Promise<Job[]> {
    const tolerance = options.driftTolerance;
    const configured = parts.apps().map((app): Job => ({ shard: quota.of(app.id), app, tolerance }));
    const ids = new Set(configured.map(({ app }) => app.id));
    const used = new Set(configured.map(({ shard }) => shard));
    const more: Job[] = [];
    for (const shard of quota.shards) {
      try {
        const dead = (await retried(() => shard.nodes())).filter(({ alive }) => !alive);
        const forgotten = (await heldBy(shard, dead)).filter((id) => !ids.has(id));
        const also = [...new Set(forgotten)].sort().map(forgottenLimits);
        for (const app of also) more.push({ shard, app, tolerance: ANY_DRIFT });
        const isUnused = also.length === 0 && !used.has(shard);
        if (dead.length > 0 && isUnused) more.push({ shard, app: NO_APP, tolerance: ANY_DRIFT, onlyNodes: true });
      } catch (error) {
        leaveOut(shard, away, error);
      }
    }
    return [...configured, ...more];
  }

  /** The apps of which these nodes hold tokens. */
  async function heldBy(shard: ShardQuota, nodes: { node: string }[]): Promise<string[]> {
    const apps: string[] = [];
    for (const { node } of nodes) {
      const ledger = await retried(() => shard.ledger(node));
      for (const { app, granted, spent, returned } of ledger.apps) if (granted > spent + returned) apps.push(app);
    }
    return apps;
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
