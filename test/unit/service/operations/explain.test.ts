/** Every refusal is explained in plain sentences. */
import { describe, expect, it } from "vitest";
import type { BucketLimits } from "../../../../src/core/app-limits.js";
import * as codes from "../../../../src/core/codes.js";
import { createQuota, type Quota } from "../../../../src/quota/quota.js";
import { layerOf } from "../../../../src/service/metrics/labels.js";
import {
  type AppNow,
  type ExplainedApp,
  explainApp,
  explainBorrow,
  explainRefusal,
} from "../../../../src/service/operations/explain.js";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { refusalReport } from "../../../support/node-reports.js";

const app: ExplainedApp = {
  ...{ id: "video-service", guaranteed: 10_000, burst: 20_000, priority: 1 },
  ...{ borrow: false, onStoreFailure: "open", dryRun: false },
};
const unused = { granted: 0, spent: 0, returned: 0 };
const cluster = { capacity: 1_000_000, rate: 500_000, failOpenTokens: 100 };

type Row = [code: string, refusal: Parameters<typeof refusalReport>[0], own: Partial<ExplainedApp>, sentence: string];

const rows: Row[] = [
  [
    codes.QUOTA_EXHAUSTED,
    { cost: 16_389, remaining: 3.7, limit: 20_000, retryAfterMs: 1_640 },
    {},
    "video-service has used its burst of 20,000 tokens: its bucket has 3 tokens, the request cost 16,389. The bucket refills at 10,000 tokens per second; retry in about 2 s.",
  ],
  [
    codes.QUOTA_EXHAUSTED,
    { cost: 5, remaining: 1, limit: 20_000, retryAfterMs: 1 },
    { guaranteed: 1 },
    "video-service has used its burst of 20,000 tokens: its bucket has 1 token, the request cost 5. The bucket refills at 1 token per second; retry in less than a second.",
  ],
  [
    codes.QUOTA_EXHAUSTED,
    { cost: 5, remaining: 3, limit: 100, retryAfterMs: 18_000, limitName: "per-user" },
    {},
    "A request of video-service was refused by the limit per-user: the bucket of its value has 3 of 100 tokens, the request cost 5; retry in about 18 s; tollgate usage per-user shows its values.",
  ],
  [
    codes.CLUSTER_EXHAUSTED,
    { cost: 1, retryAfterMs: 3_600_000 * 5 },
    {},
    "The bucket of the cluster has too few tokens above its reserve: the request of video-service cost 1 token. The bucket refills at 500,000 tokens per second for all apps; retry in about 5 h.",
  ],
  [
    codes.COST_EXCEEDS_CAPACITY,
    { cost: 30_000, retryAfterMs: 0 },
    {},
    "A request that costs 30,000 tokens can never be admitted: the bucket of video-service holds at most 20,000. Raise apps.video-service.burst, or send smaller requests.",
  ],
  [
    codes.COST_EXCEEDS_CAPACITY,
    { cost: 2_000_000, retryAfterMs: 0 },
    { burst: 5_000_000 },
    "A request that costs 2,000,000 tokens can never be admitted: the cluster pays at most 510,000 for a request of video-service, and keeps the rest of its bucket for the own rates of other apps. Raise cluster.capacity, or send smaller requests.",
  ],
  [
    codes.EMERGENCY_BLOCKED,
    { cost: 15_000, limit: 10_000, retryAfterMs: 90_000 },
    {},
    "The cluster is in an emergency: apps of priority 1 keep 50 % of their quota. The burst of video-service is 10,000 tokens, the request cost 15,000; retry in about 90 s.",
  ],
  [
    codes.EMERGENCY_BLOCKED,
    { cost: 1, limit: 0, retryAfterMs: 600_000 },
    { priority: 3 },
    "The cluster is in an emergency: apps of priority 3 are blocked. The burst of video-service is 0 tokens, the request cost 1; retry in about 10 min.",
  ],
  [
    codes.STORE_UNAVAILABLE,
    { cost: 200 },
    {},
    "The store is unavailable, and video-service has used the 100 tokens per second that it may spend on one node without it (on_store_failure: open). The request of video-service cost 200 tokens.",
  ],
  [
    codes.STORE_UNAVAILABLE,
    { cost: 1 },
    { onStoreFailure: "closed" },
    "The store is unavailable, and video-service is blocked without it (on_store_failure: closed). The request of video-service cost 1 token.",
  ],
  [
    codes.STORE_UNAVAILABLE,
    { cost: 2 },
    { onStoreFailure: "local" },
    "The store is unavailable, and video-service has used this node's share of its burst of 20,000 tokens and the 10,000 tokens per second (on_store_failure: local). The request of video-service cost 2 tokens.",
  ],
  [
    codes.INVALID_ARGUMENT,
    {},
    {},
    "The request of video-service has an invalid Content-Length, so its cost cannot be computed.",
  ],
  [
    codes.UNKNOWN_APP,
    {},
    {},
    "The app is not configured, and unknown apps are refused. Add it to apps, or set unknown_apps to default.",
  ],
  [
    codes.INVALID_IDENTITY,
    {},
    {},
    "The request has no valid identity: the app or user header is malformed or was sent twice.",
  ],
];

describe("a refusal", () => {
  it.each(rows)("%s", (code, refusal, own, sentence) => {
    expect(explainRefusal(refusalReport({ code, ...refusal }), { ...app, ...own }, cluster)).toBe(sentence);
  });

  it("without the store states the whole limit of an app without a cap: burst and rate", () => {
    const uncapped = { ...cluster, failOpenTokens: undefined };
    expect(explainRefusal(refusalReport({ code: codes.STORE_UNAVAILABLE }), app, uncapped)).toContain(
      "has used its burst of 20,000 tokens and the 10,000 tokens per second that it may spend on one node without it",
    );
  });

  it("with an unknown code contains the code", () => {
    expect(explainRefusal(refusalReport({ code: "new_code" }), app, cluster)).toContain("its code is new_code.");
  });

  it("of a dry run states that the request was admitted", () => {
    const dry = explainRefusal(refusalReport({ dryRun: true }), { ...app, dryRun: true }, cluster);
    expect(dry).toMatch(/ The request was admitted because video-service is on a dry run\.$/);
    const byLimit = explainRefusal(refusalReport({ dryRun: true, limitName: "per-user" }), app, cluster);
    expect(byLimit).toMatch(/^A request of video-service would be refused by the limit per-user: /);
    expect(byLimit).toMatch(/ The request was admitted because the limit per-user is on a dry run\.$/);
  });

  it.each([
    [codes.QUOTA_EXHAUSTED, "L2"],
    [codes.COST_EXCEEDS_CAPACITY, "L2"],
    [codes.CLUSTER_EXHAUSTED, "L1"],
    [codes.EMERGENCY_BLOCKED, "emergency"],
    [codes.STORE_UNAVAILABLE, "store"],
    [codes.UNKNOWN_APP, "identity"],
    [codes.INVALID_IDENTITY, "identity"],
    [codes.INVALID_ARGUMENT, "L3"],
  ])("%s is decided at %s", (code, layer) => {
    expect(layerOf(code)).toBe(layer);
  });
});

describe("a loan", () => {
  const answer = { borrowed: 0, debt: 1_200, remaining: 19_990, borrowable: 4_000 };

  it.each([
    [
      codes.OK,
      "video-service has borrowed 500 tokens and owes 1,200. Its refill beyond the guaranteed reserve repays the debt.",
    ],
    [codes.BORROWING_DISABLED, "video-service may not borrow: set apps.video-service.borrow to true."],
    [
      codes.BORROW_LIMIT_EXCEEDED,
      "video-service may borrow 4,000 tokens more, not 5,000: it owes 1,200, and may borrow at most half of its guaranteed rate per second.",
    ],
    [
      codes.BUCKET_FULL,
      "video-service does not need to borrow: its bucket of 20,000 has 19,990 tokens and no room for 5,000 more.",
    ],
    [codes.CLUSTER_EXHAUSTED, "The cluster cannot lend 5,000 tokens: it keeps a fifth of its bucket."],
    [codes.EMERGENCY_BLOCKED, "The cluster does not lend tokens during an emergency."],
    ["other", "video-service could not borrow: its code is other."],
  ])("%s", (code, sentence) => {
    const borrowed = code === codes.OK ? 500 : 0;
    expect(explainBorrow({ ...answer, code, borrowed }, 5_000, app)).toBe(sentence);
  });
});

describe("what limits an app", () => {
  const now: AppNow = {
    ...{ balances: { ...unused, tokens: 18_000.5, debt: 0, clusterTokens: 500_000 }, level: 0, last: undefined },
    emergency: { active: false, leftMs: 0, burstsStopped: false },
  };
  const free =
    "Nothing limits video-service: its bucket has 18,000 of 20,000 tokens and refills at 10,000 tokens per second.";
  const last = (agoMs: number) => ({
    refusal: refusalReport({ cost: 30_000, code: codes.COST_EXCEEDS_CAPACITY }),
    agoMs,
  });

  const cases: [what: string, now: Partial<AppNow>, own: Partial<ExplainedApp>, why: string][] = [
    ["nothing", {}, {}, free],
    ["nothing, though something did an hour ago", { last: last(3_600_000) }, {}, free],
    [
      "nothing, but a moment ago something did",
      { last: last(12_300) },
      {},
      `${free} The last refusal was 12 s ago: A request that costs 30,000 tokens can never be admitted: the bucket of video-service holds at most 20,000. Raise apps.video-service.burst, or send smaller requests.`,
    ],
    [
      "its limit, where it was refused for it just now",
      { last: { refusal: refusalReport({ cost: 990, remaining: 2, code: codes.QUOTA_EXHAUSTED }), agoMs: 100 } },
      {},
      "video-service requests more than its rate, and the excess is refused: its bucket has 18,000 of 20,000 tokens and refills at 10,000 tokens per second. The last refusal was less than a second ago: video-service has used its burst of 1,000 tokens: its bucket has 2 tokens, the request cost 990. The bucket refills at 10,000 tokens per second; retry in about 6 s.",
    ],
    [
      "its own bucket",
      { balances: { ...unused, tokens: 0.25, debt: 0, clusterTokens: 500_000 } },
      {},
      "video-service has used its burst of 20,000 tokens: its bucket is empty and refills at 10,000 tokens per second; the next token arrives in less than a second.",
    ],
    [
      "a bucket that is overdrawn, and debt",
      { balances: { ...unused, tokens: -30_000, debt: 600, clusterTokens: 500_000 } },
      {},
      "video-service has used its burst of 20,000 tokens: its bucket is overdrawn by 30,000 tokens and refills at 10,000 tokens per second; the next token arrives in about 3 s. It owes 600 tokens, which its refill repays first.",
    ],
    [
      "the cluster's bucket",
      { balances: { ...unused, tokens: 18_000, debt: 0, clusterTokens: 0.5 } },
      {},
      "The bucket of the cluster is empty; it refills at 500,000 tokens per second for all apps.",
    ],
    [
      "an emergency",
      { emergency: { active: true, leftMs: 300_000, burstsStopped: false } },
      {},
      "The cluster is in an emergency: apps of priority 1 keep 50 % of their quota; the burst of video-service is 10,000 tokens, its rate 5,000 tokens per second; it ends in about 5 min.",
    ],
    [
      "an emergency that blocks it",
      { emergency: { active: true, leftMs: 0, burstsStopped: false } },
      { priority: 3 },
      "The cluster is in an emergency: apps of priority 3 are blocked; it has no fixed end.",
    ],
    ["no emergency of others", { emergency: { active: true, leftMs: 0, burstsStopped: false } }, { priority: 0 }, free],
    [
      "a store that is gone",
      { balances: undefined },
      {},
      "The store does not answer, so the balance of video-service is unknown. Requests get 503 once video-service has used the 100 tokens per second that it may spend on one node without it (on_store_failure: open).",
    ],
    [
      "a pinned level",
      { level: 3 },
      {},
      `${free} The degradation level is 3: requests that the lease of a node cannot pay do not wait for the store.`,
    ],
    [
      "a dry run",
      {},
      { dryRun: true },
      `${free} video-service is on a dry run: its own limit refuses nothing. Other limits that are not on a dry run still refuse its requests, and so do checks of invalid ones.`,
    ],
  ];

  it.each(cases)("%s", (_what, changed, own, why) => {
    expect(explainApp({ ...app, ...own }, { ...now, ...changed }, cluster)).toBe(why);
  });
});

describe("a loan is suggested", () => {
  const lender: BucketLimits & ExplainedApp = { ...app, id: "lender", guaranteed: 100, burst: 400, borrow: true };
  const limits = { capacity: 1_000, rate: 1, failOpenTokens: undefined };

  /** Exhausts the app, then returns the suggested amount and what borrowing it, or 1 token, returns. */
  async function suggested(own: Partial<ExplainedApp>, prepare: (quota: Quota) => Promise<unknown> = async () => {}) {
    // Its clock stands still, so that the empty bucket gains nothing.
    const store = createEmbeddedStore({ clock: () => 1e15 });
    const quota = createQuota(store, { id: "c", ...limits, nodeTtlMs: 10_000 });
    const explained = { ...lender, ...own };
    const idle = { granted: 0, spent: 0, returned: 0 };
    const reply = await quota
      .of("lender")
      .grant({ node: "n", epoch: 1, seq: 1 }, [{ app: { ...lender, borrow: false }, ...idle, need: 400, want: 400 }]);
    const spent = { granted: 400, spent: 400, returned: 0 };
    expect(reply.apps[0]?.granted).toBe(400);
    await quota.of("lender").report({ node: "n", epoch: 1, seq: 2 }, [{ app: lender, ...spent }], false);
    await prepare(quota);
    const { emergency } = await quota.inspect(lender);
    const why = explainApp(
      explained,
      {
        balances: await quota.inspect(lender),
        emergency: { active: emergency, leftMs: 0, burstsStopped: false },
        level: 0,
        last: undefined,
      },
      limits,
    );
    const amount = Number(/lend it up to \d+ tokens?: tollgate borrow lender (\d+)\./.exec(why)?.[1] ?? 0);
    const { code } = await quota.borrow(explained, Math.max(amount, 1), "loan");
    return { amount, code };
  }

  it("to an app with an empty bucket, and succeeds", async () => {
    expect(await suggested({})).toEqual({ amount: 50, code: codes.OK });
    const partly = await suggested({}, (quota) => quota.borrow(lender, 20, "earlier"));
    // It has tokens now.
    expect(partly.amount).toBe(0);
  });

  it.each<[string, Partial<ExplainedApp>, ((quota: Quota) => Promise<unknown>) | undefined, string]>([
    ["may not borrow", { borrow: false }, undefined, codes.BORROWING_DISABLED],
    ["is in an emergency", {}, (quota) => quota.emergencyOn(0, "why", "who", "on"), codes.EMERGENCY_BLOCKED],
    [
      "has borrowed all it may",
      {},
      async (quota) => {
        await quota.borrow(lender, 50, "earlier");
        const spent = { granted: 400, spent: 450, returned: 0 };
        await quota.of("lender").report({ node: "n", epoch: 1, seq: 3 }, [{ app: lender, ...spent }], false);
      },
      codes.BORROW_LIMIT_EXCEEDED,
    ],
    [
      "belongs to a cluster that keeps the rest",
      {},
      (quota) => {
        const other = { ...lender, id: "other", burst: 1_000, borrow: false };
        const need = { granted: 0, spent: 0, returned: 0, need: 590, want: 590 };
        return quota.of("other").grant({ node: "m", epoch: 1, seq: 1 }, [{ app: other, ...need }]);
      },
      codes.CLUSTER_EXHAUSTED,
    ],
  ])("not to an app that %s", async (_name, own, prepare, code) => {
    expect(await suggested(own, prepare)).toEqual({ amount: 0, code });
  });
});
