/** Reads balances, nodes and slots from the store for a scrape: in bounded time, at most once per second. */
import type { BucketLimits } from "../../core/app-limits.js";
import type { Quota } from "../../quota/quota.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import { mapConcurrently } from "../../shared/concurrently.js";
import { StoreError } from "../../store/errors.js";

/** The slots of a route on a pod. */
export interface PodSlots {
  route: string;
  upstream: string;
  pod: string;
  slots: number;
}

export interface StoreGaugesOptions {
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

/** Returns a function that returns the values that could be read in time. */
export function createStoreGauges({ quota, apps, slots, clock = systemClock }: StoreGaugesOptions) {
  let taken: ReturnType<typeof take> | undefined;
  let takenAt = 0;

  async function take() {
    let clusterTokens: number | undefined;
    let liveNodes: number | undefined;
    let shards: Awaited<ReturnType<Quota["states"]>> = [];
    let deadNodes: number | undefined;
    let podSlots: PodSlots[] = [];
    const tokens = new Map<string, number>();
    let over = false;

    async function askForApp(app: BucketLimits): Promise<void> {
      try {
        const found = await quota.inspect(app);
        if (over) throw new StoreError("timeout", "the reply is too late");
        tokens.set(app.id, found.tokens);
      } catch (error) {
        // Stop if the store fails. Any other error concerns one app only.
        if (error instanceof StoreError) throw error;
      }
    }

    async function askForNodes(): Promise<void> {
      const nodes = await quota.nodes();
      if (over) return;
      liveNodes = nodes.filter(({ alive }) => alive).length;
      deadNodes = nodes.length - liveNodes;
    }

    async function askForCluster(): Promise<void> {
      const { tokens: left } = await quota.cluster();
      if (!over) clusterTokens = left;
    }

    async function askForSlots(): Promise<void> {
      const found = await slots();
      if (!over) podSlots = found;
    }

    /** Not with one shard, which is the cluster. */
    async function askForShards(): Promise<void> {
      if (quota.shards.length === 1) return;
      const states = await quota.states({ deadlineMs: SHARD_WITHIN_MS });
      if (!over) shards = states;
    }

    const asked = [askForNodes(), askForCluster(), askForShards(), askForSlots()];
    const all = Promise.allSettled([...asked, mapConcurrently(apps(), AT_A_TIME, askForApp)]);
    await new Promise<void>((resolve) => {
      const stop = clock.after(WITHIN_MS, resolve);
      void all.then(() => {
        stop();
        resolve();
      });
    });
    over = true;
    return { clusterTokens, liveNodes, deadNodes, podSlots, shards, tokens };
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
