/** Every refusal is explained in a sentence that a person can act on. */
import { describe, expect, it } from "vitest";
import * as codes from "../../../../src/core/codes.js";
import { layerOf } from "../../../../src/service/metrics/labels.js";
import {
  type AppNow,
  type ExplainedApp,
  explainApp,
  explainBorrow,
  explainRefusal,
} from "../../../../src/service/operations/explain.js";
import { refusalReport } from "../../../support/node-reports.js";

const app: ExplainedApp = {
  ...{ id: "video-service", guaranteed: 10_000, burst: 20_000, priority: 1 },
  ...{ onStoreFailure: "open", dryRun: false },
};
const around = { cluster: { capacity: 1_000_000, rate: 500_000 }, failOpenTokens: 100 };

type Row = [code: string, refusal: Parameters<typeof refusalReport>[0], own: Partial<ExplainedApp>, sentence: string];

const rows: Row[] = [
  [
    codes.QUOTA_EXHAUSTED,
    { cost: 16_389, remaining: 3.7, limit: 20_000, retryAfterMs: 1_640 },
    {},
    "video-service has used its burst of 20,000: 3 tokens are left in its bucket, the request needed 16,389; 10,000 tokens per second come in, so wait about 2 s.",
  ],
  [
    codes.QUOTA_EXHAUSTED,
    { cost: 5, remaining: 1, limit: 20_000, retryAfterMs: 1 },
    { guaranteed: 1 },
    "video-service has used its burst of 20,000: 1 token is left in its bucket, the request needed 5; 1 token per second comes in, so wait less than a second.",
  ],
  [
    codes.CLUSTER_EXHAUSTED,
    { cost: 1, retryAfterMs: 3_600_000 * 5 },
    {},
    "The bucket that all apps of the cluster share has too little: the request of video-service needed 1 token; 500,000 tokens per second come in for all of them, so wait about 5 h.",
  ],
  [
    codes.COST_EXCEEDS_CAPACITY,
    { cost: 30_000, retryAfterMs: 0 },
    {},
    "A request of 30,000 tokens can never pass: the bucket of video-service holds 20,000 at most. Raise apps.video-service.burst, or send less at once.",
  ],
  [
    codes.COST_EXCEEDS_CAPACITY,
    { cost: 2_000_000, retryAfterMs: 0 },
    { burst: 5_000_000 },
    "A request of 2,000,000 tokens can never pass: the bucket that all apps share holds 1,000,000 at most. Raise cluster.capacity, or send less at once.",
  ],
  [
    codes.EMERGENCY_BLOCKED,
    { cost: 15_000, limit: 10_000, retryAfterMs: 90_000 },
    {},
    "The cluster is in an emergency, in which apps of priority 1 keep 50 % of their quota: video-service has a burst of 10,000 while it lasts, and the request needed 15,000, so wait about 90 s.",
  ],
  [
    codes.EMERGENCY_BLOCKED,
    { cost: 1, limit: 0, retryAfterMs: 600_000 },
    { priority: 3 },
    "The cluster is in an emergency, in which apps of priority 3 get nothing: video-service has a burst of 0 while it lasts, and the request needed 1, so wait about 10 min.",
  ],
  [
    codes.STORE_UNAVAILABLE,
    { cost: 200 },
    {},
    "The store did not answer, and video-service has used the 100 tokens per second and node that it may spend without it (on_store_failure: open); the request of video-service needed 200 tokens.",
  ],
  [
    codes.STORE_UNAVAILABLE,
    { cost: 1 },
    { onStoreFailure: "closed" },
    "The store did not answer, and video-service may do nothing without it (on_store_failure: closed); the request of video-service needed 1 token.",
  ],
  [
    codes.STORE_UNAVAILABLE,
    { cost: 2 },
    { onStoreFailure: "local" },
    "The store did not answer, and video-service has used its node's share of 10,000 tokens per second (on_store_failure: local); the request of video-service needed 2 tokens.",
  ],
  [
    codes.INVALID_ARGUMENT,
    {},
    {},
    "The request of video-service stated a size that is none, so it has no price: see its Content-Length.",
  ],
  [
    codes.UNKNOWN_APP,
    {},
    {},
    "The app is not configured, and unknown apps are refused: add it to apps, or set unknown_apps to default.",
  ],
  [
    codes.INVALID_IDENTITY,
    {},
    {},
    "The request did not say properly which app it is: its identity is malformed or was given twice.",
  ],
];

describe("a refusal", () => {
  it.each(rows)("%s", (code, refusal, own, sentence) => {
    expect(explainRefusal(refusalReport({ code, ...refusal }), { ...app, ...own }, around)).toBe(sentence);
  });

  it.each(Object.values(codes))("%s has words of its own", (code) => {
    const sentence = explainRefusal(refusalReport({ code }), app, around);
    expect(sentence).toMatch(/^[A-Za-z].*[.]$/);
    expect(sentence).not.toContain(`code is ${code}`);
  });

  it("with a code that nobody knows still says that", () => {
    expect(explainRefusal(refusalReport({ code: "new_code" }), app, around)).toContain("its code is new_code.");
  });

  it("of a dry run says that the request passed", () => {
    const dry = explainRefusal(refusalReport({ dryRun: true }), { ...app, dryRun: true }, around);
    expect(dry).toMatch(/ It passed all the same: video-service is on a dry run\.$/);
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
      "video-service has borrowed 500 tokens and owes 1,200; the refill beyond its guaranteed reserve pays that back.",
    ],
    [codes.BORROWING_DISABLED, "video-service may not borrow: set apps.video-service.borrow to true."],
    [
      codes.BORROW_LIMIT_EXCEEDED,
      "video-service may borrow 4,000 tokens more and not 5,000: it owes 1,200, and at most half of what a second brings can be borrowed.",
    ],
    [codes.BUCKET_FULL, "video-service is not out: its bucket of 20,000 has 19,990 in it and no room for 5,000 more."],
    [codes.CLUSTER_EXHAUSTED, "The cluster has not 5,000 tokens to lend: it keeps a fifth of its bucket."],
    [codes.EMERGENCY_BLOCKED, "Nothing is lent while the cluster is in an emergency."],
    ["other", "Nothing was lent to video-service: its code is other."],
  ])("%s", (code, sentence) => {
    const borrowed = code === codes.OK ? 500 : 0;
    expect(explainBorrow({ ...answer, code, borrowed }, 5_000, app)).toBe(sentence);
  });
});

describe("what stands in the way of an app", () => {
  const now: AppNow = {
    ...{ balances: { tokens: 18_000.5, debt: 0, clusterTokens: 500_000 }, level: 0, last: undefined },
    emergency: { active: false, leftMs: 0 },
  };
  const free = "Nothing stands in the way: 18,000 of 20,000 tokens are there, and 10,000 tokens per second come in.";
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
      `${free} The last refusal was 12 s ago: A request of 30,000 tokens can never pass: the bucket of video-service holds 20,000 at most. Raise apps.video-service.burst, or send less at once.`,
    ],
    [
      "its limit, where it was refused for it just now",
      { last: { refusal: refusalReport({ cost: 990, remaining: 2, code: codes.QUOTA_EXHAUSTED }), agoMs: 100 } },
      {},
      "video-service asks for more than it gets, and what is beyond that is refused: 18,000 of 20,000 tokens are there, and 10,000 tokens per second come in. The last refusal was a moment ago: video-service has used its burst of 1,000: 2 tokens are left in its bucket, the request needed 990; 10,000 tokens per second come in, so wait about 6 s.",
    ],
    [
      "its own bucket",
      { balances: { tokens: 0.25, debt: 0, clusterTokens: 500_000 } },
      {},
      "video-service has used its burst of 20,000: its bucket is empty, and 10,000 tokens per second come in; the next one is there in less than a second.",
    ],
    [
      "a bucket that is overdrawn, and debt",
      { balances: { tokens: -30_000, debt: 600, clusterTokens: 500_000 } },
      {},
      "video-service has used its burst of 20,000: its bucket is overdrawn by 30,000 tokens, and 10,000 tokens per second come in; the next one is there in about 3 s. It owes 600 tokens, which its refill pays back first.",
    ],
    [
      "the cluster's bucket",
      { balances: { tokens: 18_000, debt: 0, clusterTokens: 0.5 } },
      {},
      "The bucket that all apps of the cluster share is empty; 500,000 tokens per second come in for all of them.",
    ],
    [
      "an emergency",
      { emergency: { active: true, leftMs: 300_000 } },
      {},
      "The cluster is in an emergency, in which apps of priority 1 keep 50 % of their quota: video-service has a burst of 10,000 and 5,000 tokens per second; it ends by itself in about 5 min.",
    ],
    [
      "an emergency that blocks it",
      { emergency: { active: true, leftMs: 0 } },
      { priority: 3 },
      "The cluster is in an emergency, in which apps of priority 3 get nothing; it lasts until it is turned off.",
    ],
    ["no emergency of others", { emergency: { active: true, leftMs: 0 } }, { priority: 0 }, free],
    [
      "a store that is gone",
      { balances: undefined },
      {},
      "The store does not answer, so nobody knows what video-service has left; once video-service has used the 100 tokens per second and node that it may spend without it (on_store_failure: open), requests get 503.",
    ],
    [
      "a pinned level",
      { level: 3 },
      {},
      `${free} The degradation level is 3: what the lease of a node cannot pay does not wait for the store.`,
    ],
    ["a dry run", {}, { dryRun: true }, `${free} video-service is on a dry run: nothing of it is refused.`],
  ];

  it.each(cases)("%s", (_what, changed, own, why) => {
    expect(explainApp({ ...app, ...own }, { ...now, ...changed }, around)).toBe(why);
  });
});
