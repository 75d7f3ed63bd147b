/** Reads balances and live nodes from the store for a scrape: in bounded time, at most once per second. */
import type { BucketLimits } from "../../core/limits.js";
import type { Quota } from "../../quota/quota.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import { StoreError } from "../../store/errors.js";

/** Values that could be read in time. */
export interface StoreGauges {
  clusterTokens: number | undefined;
  liveNodes: number | undefined;
  /** By app. */
  tokens: Map<string, number>;
}

export interface StoreGaugesOptions {
  quota: Pick<Quota, "inspect" | "nodes">;
  /** The apps to read. */
  apps(): readonly BucketLimits[];
  clock?: Clock;
  /** Values that take longer are left out. */
  withinMs?: number;
}

const FRESH_MS = 1_000;
/** Concurrent calls: few compared with those that requests wait for. */
const AT_A_TIME = 16;
/** The embedded store replies synchronously; yield to the event loop after this many apps. */
const APPS_PER_TURN = 64;

export function createStoreGauges(options: StoreGaugesOptions): () => Promise<StoreGauges> {
  const { quota, apps, clock = systemClock, withinMs = 1_000 } = options;
  let taken: Promise<StoreGauges> | undefined;
  let takenAt = 0;

  async function take(): Promise<StoreGauges> {
    const gauges: StoreGauges = { clusterTokens: undefined, liveNodes: undefined, tokens: new Map() };
    const waiting = [...apps()];
    let over = false;
    let asked = 0;

    async function askForApps(): Promise<void> {
      while (!over) {
        const app = waiting.shift();
        if (app === undefined) return;
        if (++asked % APPS_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
        try {
          const { tokens, clusterTokens } = await quota.inspect(app);
          // The reply is too late.
          if (over) return;
          gauges.tokens.set(app.id, tokens);
          gauges.clusterTokens = clusterTokens;
        } catch (error) {
          // Stop if the store fails. Any other error concerns one app only.
          if (error instanceof StoreError) over = true;
        }
      }
    }

    async function askForNodes(): Promise<void> {
      const nodes = await quota.nodes().catch(() => undefined);
      if (!over && nodes !== undefined) gauges.liveNodes = nodes.filter(({ alive }) => alive).length;
    }

    const all = Promise.all([askForNodes(), ...Array.from({ length: AT_A_TIME }, askForApps)]);
    await new Promise<void>((resolve) => {
      const stop = clock.after(withinMs, resolve);
      void all.then(() => {
        stop();
        resolve();
      });
    });
    over = true;
    return gauges;
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
