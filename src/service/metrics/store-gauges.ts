/** Balances and live nodes as the store has them: asked for a scrape, in bounded time, and not again within a second. */
import type { BucketLimits } from "../../core/limits.js";
import type { Quota } from "../../quota/quota.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import { StoreError } from "../../store/errors.js";

/** What could be had. */
export interface StoreGauges {
  clusterTokens: number | undefined;
  liveNodes: number | undefined;
  /** By app. */
  tokens: Map<string, number>;
}

export interface StoreGaugesOptions {
  quota: Pick<Quota, "inspect" | "nodes">;
  /** Those to ask for. */
  apps(): readonly BucketLimits[];
  clock?: Clock;
  /** What is not there by then is left out. */
  withinMs?: number;
}

const FRESH_MS = 1_000;
/** Calls under way at a time: few beside those that requests wait for. */
const AT_A_TIME = 16;
/** The embedded store answers without ever letting go: after so many apps, others get their turn. */
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
          // What comes late is nobody's any more.
          if (over) return;
          gauges.tokens.set(app.id, tokens);
          gauges.clusterTokens = clusterTokens;
        } catch (error) {
          // A store that fails is not asked a thousand times; what is wrong with one app does not concern the others.
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
