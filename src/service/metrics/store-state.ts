/** Reads balances, nodes and slots from the store for a scrape: in bounded time, at most once per second. */
import type { BucketLimits } from "../../core/app-limits.js";
import type { Quota, ShardState } from "../../quota/quota.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import { mapConcurrently } from "../../shared/concurrently.js";
import { StoreError } from "../../store/errors.js";

export type { ShardState };
export type AppBalances = Awaited<ReturnType<Quota["inspect"]>>;

/** The slots of a route on a pod. */
export interface PodSlots {
  route: string;
  upstream: string;
  pod: string;
  slots: number;
}

/** Without what the store did not reply in time. */
export interface StoreState {
  cluster?: Awaited<ReturnType<Quota["cluster"]>>;
  nodes?: Awaited<ReturnType<Quota["nodes"]>>;
  /** Empty with one shard, which is the cluster. Undefined: no reply. */
  shards: readonly (ShardState | undefined)[];
  slots: readonly PodSlots[];
  apps: Map<string, AppBalances>;
}

export interface StoreStateOptions {
  quota: Pick<Quota, "inspect" | "nodes" | "cluster" | "shards" | "states">;
  /** The apps to read. */
  apps(): readonly BucketLimits[];
  slots(): Promise<PodSlots[]>;
  clock?: Clock | undefined;
}

const FRESH_MS = 1_000;
/** Values that take longer are left out. */
const WITHIN_MS = 1_000;
/** Sooner, so that a failed shard is reported. */
const SHARD_WITHIN_MS = 700;
/** Concurrent calls: few compared with those that requests wait for. */
const AT_A_TIME = 16;

/** Returns a function that returns what could be read in time. */
export function createStoreReader({ quota, apps, slots, clock = systemClock }: StoreStateOptions) {
  let taken: Promise<StoreState> | undefined;
  let takenAt = 0;

  async function take(): Promise<StoreState> {
    const state: StoreState = { shards: [], slots: [], apps: new Map() };
    let over = false;

    async function ask<Name extends keyof StoreState>(name: Name, asked: Promise<StoreState[Name]>): Promise<void> {
      const found = await asked;
      if (!over) state[name] = found;
    }

    async function askForApp(app: BucketLimits): Promise<void> {
      try {
        const found = await quota.inspect(app);
        if (over) throw new StoreError("timeout", "the reply is too late");
        state.apps.set(app.id, found);
      } catch (error) {
        // Stop if the store fails. Any other error concerns one app only.
        if (error instanceof StoreError) throw error;
      }
    }

    const asked = [ask("nodes", quota.nodes()), ask("cluster", quota.cluster()), ask("slots", slots())];
    if (quota.shards.length > 1) asked.push(ask("shards", quota.states({ deadlineMs: SHARD_WITHIN_MS })));
    const all = Promise.allSettled([...asked, mapConcurrently(apps(), AT_A_TIME, askForApp)]);
    await new Promise<void>((resolve) => {
      const stop = clock.after(WITHIN_MS, resolve);
      void all.then(() => {
        stop();
        resolve();
      });
    });
    over = true;
    return state;
  }

  return () => {
    const now = clock.now();
    if (taken === undefined || now - takenAt >= FRESH_MS) {
      takenAt = now;
      taken = take();
    }
    return taken;
  };
}
