/** Refunds to nodes of Envoys: gathered, repeated until the node has reported its spending, and bounded. */
import { beforeEach, expect, it } from "vitest";
import { standardProfile } from "../../../src/core/cost.js";
import type { AppLimits } from "../../../src/core/limits.js";
import { createRefunds } from "../../../src/envoy-service/access-log/refunds.js";
import { createSimulatedClock, type SimulatedClock } from "../../support/simulated-clock.js";

const app = { id: "video", guaranteed: 1, burst: 100, priority: 1, borrow: false };
const limits: AppLimits = { ...app, profile: standardProfile, onStoreFailure: "open", dryRun: false };
const claim = { plane: "edge-1", node: "edge-1-a@1", limits, tokens: 10 };

let clock: SimulatedClock;
let calls: { node: string; amount: number; operation: string }[];
/** What the store refunds at most, or an error. */
let available: number | Error;
let refunds: ReturnType<typeof createRefunds>;

beforeEach(() => {
  clock = createSimulatedClock();
  calls = [];
  available = 1_000;
  const quota = {
    async refund(_app: unknown, node: string, amount: number, operation: string) {
      calls.push({ node, amount, operation });
      if (available instanceof Error) throw available;
      const refunded = Math.min(amount, available);
      available -= refunded;
      return { code: "ok", refunded, remaining: 0 };
    },
  };
  refunds = createRefunds({ quota, log: { debug() {} }, clock });
});

it("claims of one node and app are one call", async () => {
  refunds.add(claim);
  refunds.add(claim);
  refunds.add({ ...claim, node: "edge-1-b@1" });
  await clock.advance(600);
  expect(calls.map(({ node, amount }) => [node, amount])).toEqual([
    ["edge-1-a@1", 20],
    ["edge-1-b@1", 10],
  ]);
  expect(refunds.waiting()).toBe(0);
});

it("what the node has not reported yet is asked for again, less and less often, and given up", async () => {
  available = 4;
  refunds.add(claim);
  await clock.advance(600);
  available = 2;
  await clock.advance(2_000);
  expect(calls.map(({ amount }) => amount).slice(0, 2)).toEqual([10, 6]);
  await clock.advance(600_000);
  expect(calls.length).toBeLessThan(12);
  expect(new Set(calls.map(({ operation }) => operation)).size).toBe(3);
  expect(refunds.waiting()).toBe(0);
});

it("a call that the store did not answer is repeated as the same operation", async () => {
  available = new Error("no answer");
  refunds.add(claim);
  await clock.advance(600);
  available = 1_000;
  await clock.advance(2_000);
  expect(calls).toHaveLength(2);
  expect(calls[0]).toEqual(calls[1]);
});

it("a plane that claims for many nodes takes no room of others", async () => {
  available = 0;
  for (let i = 0; i < 5_000; i++) refunds.add({ ...claim, node: `edge-1-a@${i}` });
  refunds.add({ ...claim, plane: "edge-2", node: "edge-2-a@1" });
  expect(refunds.waiting()).toBe(1_001);
  await refunds.close();
  expect(calls.filter(({ node }) => node === "edge-2-a@1")).toHaveLength(1);
  expect(refunds.waiting()).toBe(0);
});
