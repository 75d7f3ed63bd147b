/** Shards: shares of L1, rounds that change them, one emergency for all, and their number. */
import { expect } from "vitest";
import { shardOf } from "../../src/core/shard.js";
import { createQuota, type ShardQuota } from "../../src/quota/quota.js";
import { ShardMismatch } from "../../src/quota/shard-count.js";
import { waitFor } from "../support/wait-for.js";
import { type Bench, forEachBackend } from "./backends.js";

const SHARDS = 4;
const SECOND = 1_000_000;
const one = { round: 1, owner: "one" };
const two = { round: 2, owner: "two" };

const quotaOf = (bench: Bench, cluster = {}) =>
  createQuota(bench.store, { id: bench.name, capacity: 1000, rate: 100, nodeTtlMs: 3000, shards: SHARDS, ...cluster });

const app = (shard: number) => {
  for (let i = 0; ; i++) {
    const id = `app-${i}`;
    if (shardOf(id, SHARDS) === shard) return { id, guaranteed: 1000, burst: 10_000, priority: 2, borrow: true };
  }
};

async function take(quota: ReturnType<typeof quotaOf>, shard: number, need: number, node = "n1") {
  const nothing = { granted: 0, spent: 0, returned: 0, want: need };
  const sender = { node, epoch: 1, seq: 1 };
  const { apps } = await quota.shards[shard]!.grant(sender, [{ ...nothing, need, app: app(shard) }]);
  return apps[0]!;
}

forEachBackend("shards", (it) => {
  it("have equal shares until a round changes them, and grants take from the share", async (bench) => {
    const quota = quotaOf(bench);
    expect((await quota.shards[2]!.read()).share).toEqual({ capacity: 250_000, rate: 250_000 });
    expect(await take(quota, 2, 250)).toMatchObject({ code: "ok", granted: 250 });
    expect(await take(quota, 2, 1, "n2")).toMatchObject({ code: "recalling" });
    expect(await take(quota, 1, 250)).toMatchObject({ code: "ok" });
    expect(await quota.cluster()).toMatchObject({ tokens: 500, held: 500, usage: 0 });
  });

  it("let a cost above the share wait at first, then refuse it for now, and one above 0.98 of L1 for good", async (bench) => {
    const quota = quotaOf(bench);
    expect(await take(quota, 0, 900)).toMatchObject({ code: "recalling" });
    bench.store.clock.now += 0.5 * SECOND;
    expect(await take(quota, 0, 700, "n2")).toMatchObject({ code: "recalling" });
    bench.store.clock.now += 0.5 * SECOND;
    expect(await take(quota, 0, 700, "n3")).toMatchObject({ code: "cluster_exhausted" });
    expect(await take(quota, 0, 981, "n4")).toMatchObject({ code: "cost_exceeds_capacity", retryAfterMs: 0 });
    expect(await quota.shards[0]!.read()).toMatchObject({ taken: 0, refused: 2300, largestRefused: 900 });
  });

  it("remember the largest refused need until it is paid, or longer than its waiting time", async (bench) => {
    const quota = quotaOf(bench);
    const shard = quota.shards[1] as ShardQuota;
    const largest = async () => (await shard.read()).largestRefused;
    await take(quota, 1, 500);
    await shard.read(one);
    expect(await largest()).toBe(500);
    await shard.setShare(one, { capacity: 500_000, rate: 1_000_000 });
    bench.store.clock.now += 10 * SECOND;
    expect(await take(quota, 1, 500, "n2")).toMatchObject({ code: "ok" });
    expect(await largest()).toBe(0);
    await take(quota, 1, 400, "n3");
    expect(await largest()).toBe(400);
    bench.store.clock.now += 60 * SECOND;
    expect(await largest()).toBe(0);
  });

  it("change their share in the round that began last; its repetition changes nothing more", async (bench) => {
    const shard = quotaOf(bench).shards[1] as ShardQuota;
    const share = { capacity: 400_000, rate: 500_000 };
    expect(await shard.setShare(one, share)).toMatchObject({ changed: false });
    expect(await shard.read(one)).toMatchObject({ begun: true, round: 1 });
    expect(await shard.setShare(one, share)).toEqual({ changed: true, share });
    expect(await shard.setShare(one, share)).toEqual({ changed: true, share });
    expect(await shard.read(two)).toMatchObject({ begun: true, round: 2, share });
    expect(await shard.setShare(one, { capacity: 1, rate: 1 })).toEqual({ changed: false, share });
    expect(await shard.read({ round: 2, owner: "other" })).toMatchObject({ begun: false, round: 2 });
    expect(await shard.read(one)).toMatchObject({ begun: false, round: 2, share });
  });

  it("keep at least the capacity that nodes hold, and lose what does not fit", async (bench) => {
    const quota = quotaOf(bench);
    const shard = quota.shards[3] as ShardQuota;
    await take(quota, 3, 100);
    const recalled: string[] = [];
    const stop = await shard.onRecall((app) => recalled.push(app));
    await shard.read(one);
    expect(await shard.setShare(one, { capacity: 0, rate: 0 })).toEqual({
      changed: true,
      share: { capacity: 100_000, rate: 0 },
    });
    await waitFor("the recall", () => recalled.length > 0);
    stop();
    expect(recalled).toEqual(["*"]);
    bench.store.clock.now += 10 * SECOND;
    expect(await shard.read()).toMatchObject({ tokens: 0, held: 100 });
  });

  it("refill at the old rate until their share changes, and at the new one from then on", async (bench) => {
    const quota = quotaOf(bench);
    const shard = quota.shards[0] as ShardQuota;
    await take(quota, 0, 250);
    const returned = { granted: 250, spent: 250, returned: 0, need: 0, want: 0 };
    await shard.grant({ node: "n1", epoch: 1, seq: 2 }, [{ ...returned, app: app(0) }]);
    bench.store.clock.now += SECOND;
    await shard.read(one);
    await shard.setShare(one, { capacity: 250_000, rate: 1_000_000 });
    expect((await shard.read()).tokens).toBe(25);
    bench.store.clock.now += SECOND;
    expect((await shard.read()).tokens).toBe(125);
  });

  it("have one emergency: by an operator, and by the usage of all", async (bench) => {
    const quota = quotaOf(bench);
    const states = async () => (await Promise.all(quota.shards.map((shard) => shard.read()))).map((one) => one.source);
    await quota.emergencyOn(5000, "load", "ann", "op-1");
    expect(await states()).toEqual(new Array(SHARDS).fill("operator"));
    await quota.emergencyOff("op-2");
    expect(await states()).toEqual(new Array(SHARDS).fill("none"));
    const spend = async (shard: number) => {
      await take(quota, shard, 250);
      const spent = { granted: 250, spent: 250, returned: 0, need: 0, want: 0 };
      await quota.shards[shard]!.grant({ node: "n1", epoch: 1, seq: 2 }, [{ ...spent, app: app(shard) }]);
    };
    for (const shard of [0, 1, 2]) await spend(shard);
    expect(await quota.emergencyCheck(1000, true)).toMatchObject({ active: false, usage: 0.75 });
    await spend(3);
    expect(await quota.emergencyCheck(1000, true)).toMatchObject({ burstsStopped: true, changed: true });
    const stopped = (await Promise.all(quota.shards.map((shard) => shard.read()))).map((one) => one.burstsStopped);
    expect(stopped).toEqual(new Array(SHARDS).fill(true));
  });

  it("that missed an emergency get it with the next check", async (bench) => {
    const quota = quotaOf(bench);
    await quota.shards[0]!.emergencyOn(0, "load", "ann", "op-1");
    await quota.emergencyCheck(1000, false);
    expect(await quota.shards[3]!.read()).toMatchObject({ active: true, reason: "load", operator: "ann" });
    await quota.shards[0]!.emergencyOn(0, "more load", "bea", "op-1b");
    await quota.emergencyCheck(1000, false);
    expect(await quota.shards[3]!.read()).toMatchObject({ active: true, reason: "more load", operator: "bea" });
    await quota.shards[0]!.emergencyOff("op-2");
    await quota.emergencyCheck(1000, false);
    expect((await quota.shards[3]!.read()).active).toBe(false);
  });

  it("keep their number: another one is refused, and nothing changes", async (bench) => {
    await take(quotaOf(bench), 0, 10);
    const other = quotaOf(bench, { shards: 2 });
    const refusal = await other.inspect(app(0)).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(ShardMismatch);
    expect(String(refusal)).toContain("cluster.shards is 2, but the cluster");
    await expect(other.verify()).rejects.toThrow("was created with 4");
    await quotaOf(bench).verify();
  });

  it("reject invalid numbers, and nothing changes", async (bench) => {
    const shard = quotaOf(bench).shards[0] as ShardQuota;
    await shard.read(one);
    for (const [share, field] of [
      [{ capacity: -1, rate: 0 }, "share_capacity"],
      [{ capacity: 0, rate: 1_000_001 }, "share_rate"],
      [{ capacity: 0.5, rate: 0 }, "share_capacity"],
    ] as const) {
      await expect(shard.setShare(one, share)).rejects.toMatchObject({ field });
    }
    await expect(shard.read({ round: -1, owner: "x" })).rejects.toMatchObject({ field: "round" });
    expect((await shard.read()).share).toEqual({ capacity: 250_000, rate: 250_000 });
  });
});
