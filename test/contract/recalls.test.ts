/** Recalls: if tokens are short and other nodes hold enough, these are asked to return them, and the reply says so. */
import { expect } from "vitest";
import { createQuota, type GrantRequest, type SplitQuota } from "../support/split-quota.js";
import { waitFor } from "../support/wait-for.js";
import { type Bench, forEachBackend } from "./backends.js";

const MILLISECOND = 1_000;
const app = { id: "video", guaranteed: 1, burst: 100, priority: 1, borrow: false };
const other = { ...app, id: "audio" };

const quotaOf = (bench: Bench, cluster = {}) =>
  createQuota(bench.store, { id: bench.name, capacity: 1000, rate: 0, nodeTtlMs: 3000, ...cluster });

const ask = (need: number, known: Partial<GrantRequest> = {}): GrantRequest => ({
  ...{ app, granted: 0, spent: 0, returned: 0, need, want: need },
  ...known,
});

/** Asks as the node `needy`. The messages have increasing numbers. */
function asker(quota: SplitQuota) {
  let seq = 0;
  return async (request: GrantRequest) => {
    seq += 1;
    const { apps } = await quota.grant({ node: "needy", epoch: 1, seq }, [request]);
    const { code, retryAfterMs } = apps[0]!;
    return [code, retryAfterMs];
  };
}

const hold = (quota: SplitQuota, requests: GrantRequest[], seq = 1) =>
  quota.grant({ node: "holder", epoch: 1, seq }, requests);

async function recallsOf(quota: SplitQuota) {
  const recalled: string[] = [];
  const stop = await quota.of(app.id).onRecall((id) => recalled.push(id));
  return { recalled, stop };
}

forEachBackend("recalls", (it) => {
  it("ask all nodes for the tokens of an app that is short; what they return pays the request", async (bench) => {
    const quota = quotaOf(bench);
    const { recalled, stop } = await recallsOf(quota);
    const needs = asker(quota);
    await hold(quota, [ask(90)]);
    expect(await needs(ask(50))).toEqual(["recalling", 10]);
    await waitFor("the recall", () => recalled.length === 1);
    expect(recalled).toEqual(["video"]);
    await hold(quota, [ask(0, { granted: 90, spent: 20, returned: 70 })], 2);
    expect(await needs(ask(50))).toEqual(["ok", 0]);
    stop();
  });

  it("name all apps if the cluster is short", async (bench) => {
    const quota = quotaOf(bench, { capacity: 150 });
    const { recalled, stop } = await recallsOf(quota);
    await hold(quota, [ask(90)]);
    expect(await asker(quota)(ask(80, { app: other }))).toEqual(["recalling", 10]);
    await waitFor("the recall", () => recalled.length === 1);
    expect(recalled).toEqual(["*"]);
    stop();
  });

  it("are not made if the others hold too little, or only the node itself holds tokens", async (bench) => {
    const quota = quotaOf(bench);
    const { recalled, stop } = await recallsOf(quota);
    const needs = asker(quota);
    await hold(quota, [ask(90)]);
    await hold(quota, [ask(0, { granted: 90, spent: 60 })], 2);
    expect((await needs(ask(50)))[0]).toBe("quota_exhausted");
    const own = await hold(quota, [ask(50, { granted: 90, spent: 60 })], 3);
    expect(own.apps[0]!.code).toBe("quota_exhausted");
    await quota.grant({ node: "third", epoch: 1, seq: 1 }, [ask(40)]);
    await waitFor("the only recall", () => recalled.length === 1);
    expect(recalled).toEqual(["video"]);
    stop();
  });

  it("are repeated every 20 ms at most, less often while nothing comes back, and refusals follow after 250 ms", async (bench) => {
    const quota = quotaOf(bench);
    const { recalled, stop } = await recallsOf(quota);
    const needs = asker(quota);
    await hold(quota, [ask(90)]);
    const codes: string[] = [];
    for (let ms = 0; ms < 500; ms += 10) {
      codes.push(String((await needs(ask(50)))[0]));
      bench.store.clock.now += 10 * MILLISECOND;
    }
    // At 0, 20, 60, 140 and 300 ms.
    await waitFor("the recalls", () => recalled.length === 5);
    expect(codes).toEqual([...Array(25).fill("recalling"), ...Array(25).fill("quota_exhausted")]);
    // The tokens may return long before the bucket refills.
    expect(await needs(ask(50))).toEqual(["quota_exhausted", 1000]);
    // More than a second without a recall: a new shortage.
    bench.store.clock.now += 1_500 * MILLISECOND;
    expect(await needs(ask(50))).toEqual(["recalling", 10]);
    stop();
  });

  it("go on quickly while they bring tokens back", async (bench) => {
    const quota = quotaOf(bench);
    const { recalled, stop } = await recallsOf(quota);
    const needs = asker(quota);
    await hold(quota, [ask(90)]);
    for (let i = 0; i < 5; i++) {
      expect((await needs(ask(95)))[0]).toBe("recalling");
      await hold(quota, [ask(0, { granted: 90, returned: i + 1 })], 2 + i);
      bench.store.clock.now += 20 * MILLISECOND;
    }
    await waitFor("the recalls", () => recalled.length === 5);
    stop();
  });
});
