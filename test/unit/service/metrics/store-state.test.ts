/** Store state for a scrape: read at most once per second, in bounded time, and omitted on failure. */
import { describe, expect, it } from "vitest";
import { createQuota, type Quota } from "../../../../src/quota/quota.js";
import { createStoreReader } from "../../../../src/service/metrics/store-state.js";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../../src/store/errors.js";
import { createSimulatedClock } from "../../../support/simulated-clock.js";
import { policy } from "./metrics-parts.js";

const cluster = { id: "gauges", capacity: 900, rate: 90, nodeTtlMs: 3000 };
const oneShard = createQuota(createEmbeddedStore(), cluster);

type Balances = Awaited<ReturnType<Quota["inspect"]>>;

const balances = (tokens: number): Balances => ({
  ...{ tokens, debt: 0, clusterTokens: 900, granted: 0, spent: 0, returned: 0, emergency: false, emergencyLeftMs: 0 },
});
const nodes = async () => [
  { node: "a@1", silentMs: 5, alive: true },
  { node: "b@1", silentMs: 9000, alive: false },
  { node: "c@1", silentMs: 7, alive: true },
];

function gauges(inspect: (app: string) => Promise<Balances>, ids: string[], askNodes = nodes) {
  const clock = createSimulatedClock();
  const asked: string[] = [];
  const take = createStoreReader({
    quota: {
      inspect(app) {
        asked.push(app.id);
        return inspect(app.id);
      },
      nodes: askNodes,
      cluster: async () => {
        await askNodes();
        return { ...{ tokens: 900, held: 0, capacity: 1000, reserve: 100, writtenOff: 0 }, usage: 0, ownShort: false };
      },
      shards: oneShard.shards,
      states: oneShard.states,
    },
    apps: () => ids.map(policy),
    slots: async () => [],
    clock,
  });
  return { clock, asked, take };
}

describe("the state of the store", () => {
  it("contain each app, the cluster and the live nodes", async () => {
    const { take } = gauges(async (app) => balances(app === "video" ? 12.5 : 3), ["video", "audio"]);
    const { apps, cluster: found, nodes: listed } = await take();
    expect([...apps].map(([app, { tokens }]) => [app, tokens])).toEqual([
      ["video", 12.5],
      ["audio", 3],
    ]);
    expect([found?.tokens, listed?.map(({ alive }) => alive)]).toEqual([900, [true, false, true]]);
  });

  it("contain each shard if there are several; one that does not reply has no numbers", async () => {
    const quota = createQuota(createEmbeddedStore(), { ...cluster, shards: 3 });
    const states = async () => (await quota.states()).map((state, shard) => (shard === 1 ? undefined : state));
    const take = createStoreReader({ quota: { ...quota, states }, apps: () => [], slots: async () => [] });
    const tokens = (await take()).shards.map((state) => state && Math.round(state.tokens));
    expect(tokens).toEqual([300, undefined, 300]);
    const { take: takeOne } = gauges(async () => balances(1), []);
    expect((await takeOne()).shards).toEqual([]);
  });

  it("are read once per second, however many scrape", async () => {
    const { clock, asked, take } = gauges(async () => balances(1), ["video"]);
    await Promise.all([take(), take(), take()]);
    await clock.advance(900);
    await take();
    expect(asked).toHaveLength(1);
    await clock.advance(200);
    await take();
    expect(asked).toHaveLength(2);
  });

  it("are omitted if they are too late", async () => {
    const never = new Promise<Balances>(() => {});
    const { clock, take } = gauges(async (app) => (app === "slow" ? never : balances(2)), ["slow", "video"]);
    const taking = take();
    await clock.advance(1_000);
    expect([...(await taking).apps]).toEqual([["video", balances(2)]]);
  });

  it("are omitted without the store, after few calls", async () => {
    const ids = Array.from({ length: 1000 }, (_, i) => `app-${i}`);
    const gone = async () => {
      throw new StoreError("unavailable", "gone");
    };
    const { asked, take } = gauges(gone, ids, gone);
    expect(await take()).toEqual({ shards: [], slots: [], apps: new Map() });
    expect(asked.length).toBeLessThan(50);
  });

  it("are omitted for an app that the store rejects, and present for the others", async () => {
    const { take } = gauges(
      async (app) => {
        if (app === "odd") throw new Error("refused");
        return balances(4);
      },
      ["odd", "video"],
    );
    expect([...(await take()).apps]).toEqual([["video", balances(4)]]);
  });
});
