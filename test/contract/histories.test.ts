/** Generated histories: limits hold (I1), slots are never oversold, and ledgers and totals match (I5). */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DrivenStore, drivenEmbeddedStore, drivenRedisStore } from "../support/driven-store.js";
import { editedLibrary, editModule } from "../support/libraries.js";
import { history, play } from "../support/quota-history.js";
import { type RedisCluster, startRedisCluster } from "../support/redis-cluster.js";
import { type RedisServer, startRedis } from "../support/redis-server.js";
import { playOnBoth } from "../support/replay.js";
import { playShares, shareHistory } from "../support/share-history.js";
import { playSlots, slotHistory } from "../support/slot-history.js";
import { mutants } from "./mutants.js";

/** Number of histories. Set HISTORIES=100000 for an overnight run. */
const HISTORIES = Number(process.env.HISTORIES ?? 1000);
const LONG = 600_000;

let server: RedisServer;
let cluster: RedisCluster;
beforeAll(async () => {
  [server, cluster] = await Promise.all([startRedis(), startRedisCluster()]);
});
afterAll(async () => {
  await Promise.all([server?.stop(), cluster?.stop()]);
});

/** Every history has its own keys, so that histories can share a server. */
let played = 0;
const freshName = () => `h${++played}`;

interface Kind {
  /** The property that runs histories of this kind. */
  property(runs: (play: (store: DrivenStore) => Promise<void>) => Promise<void>): fc.IAsyncProperty<[unknown]>;
}

function quotaHistories(shards: number): Kind {
  return {
    property: (runs) =>
      fc.asyncProperty(history, (steps) => {
        const name = freshName();
        return runs((store) => play(store, name, steps, shards));
      }),
  };
}

const kinds = {
  quota: quotaHistories(1),
  "quota on three shards": quotaHistories(3),
  shares: {
    property: (runs) =>
      fc.asyncProperty(shareHistory, (steps) => {
        const name = freshName();
        return runs((store) => playShares(store, name, steps));
      }),
  },
  slots: {
    property: (runs) =>
      fc.asyncProperty(slotHistory, (steps) => {
        const name = freshName();
        return runs((store) => playSlots(store, name, steps));
      }),
  },
} satisfies Record<string, Kind>;

describe.each(Object.entries(kinds))("%s histories", (_kind, { property }: Kind) => {
  it(
    "keep every invariant on embedded",
    async () => {
      await fc.assert(
        property((run) => run(drivenEmbeddedStore())),
        { numRuns: HISTORIES },
      );
    },
    LONG,
  );

  it(
    "get the same replies on redis as on embedded",
    async () => {
      const store = drivenRedisStore(server.url);
      await fc.assert(
        property((run) => playOnBoth(store, run)),
        { numRuns: HISTORIES / 10 },
      );
      await store.close();
    },
    LONG,
  );

  it(
    "get the same replies on redis-cluster as on embedded",
    async () => {
      const store = drivenRedisStore(cluster.url);
      await fc.assert(
        property((run) => playOnBoth(store, run)),
        { numRuns: HISTORIES / 40 },
      );
      await store.close();
    },
    LONG,
  );
});

describe("the histories on redis detect a script that is broken on purpose", () => {
  it.each(mutants)("$name (seed $seed)", async ({ module, kind, find, replace, seed, promise }) => {
    const library = editedLibrary((source) => editModule(source, module, find, replace));
    const broken = drivenRedisStore(server.url, undefined, library);
    const run = await fc.check(
      kinds[kind].property((one) => one(broken)),
      { seed, numRuns: 200, endOnFailure: true },
    );
    await broken.close();
    expect(run.failed).toBe(true);
    expect(String((run.errorInstance as Error).message)).toContain(promise);
  });
});
