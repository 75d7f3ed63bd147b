/** The local lease: pays from what was granted, remembers refusals, and aims at what it spends. */
import { describe, expect, it, test } from "vitest";
import { COST_EXCEEDS_CAPACITY, OK, QUOTA_EXHAUSTED } from "../../../src/core/codes.js";
import {
  applyReply,
  type Cell,
  defaultLeaseOptions,
  isRefused,
  isReportDue,
  type Lease,
  MISS,
  needsRefill,
  newLease,
  planSync,
  settleTokens,
  spentTokens,
  takeAllowance,
  takeTokens,
  takeUncovered,
} from "../../../src/core/lease.js";
import { leased, plainCell } from "./lease-cells.js";

const policy = defaultLeaseOptions;
const NOW = 1750000000000;

const planAt = (lease: Lease, cell: Cell, now: number, level = 0) =>
  planSync(lease, cell, { nextCost: 0, waitingCost: 0 }, { options: policy, level, now });

describe("taking tokens", () => {
  it("takes up to the last token and returns what is left", () => {
    const { cell } = leased(NOW, 10);
    expect([takeTokens(cell, 3), takeTokens(cell, 7), takeTokens(cell, 1)]).toEqual([7, 0, MISS]);
  });

  it("does not change the balance on a miss", () => {
    const { cell } = leased(NOW, 10);
    for (const cost of [11, 1000000, Number.POSITIVE_INFINITY, Number.NaN]) expect(takeTokens(cell, cost)).toBe(MISS);
    expect(cell.get()).toBe(10);
  });

  it("admits a free request and never returns a negative balance for it", () => {
    expect(takeTokens(plainCell(5), 0)).toBe(5);
    expect(takeTokens(plainCell(-5), 0)).toBe(0);
  });

  it("without a grant makes the balance negative and counts as spent", () => {
    const { lease, cell } = leased(NOW, 2);
    expect(takeUncovered(cell, 5)).toBe(-3);
    expect(spentTokens(lease, cell)).toBe(5);
  });

  it("from an allowance admits up to the allowance and counts nothing beyond it", () => {
    const used = plainCell(0);
    expect([60, 50, 40, 1].map((cost) => takeAllowance(used, 100, cost))).toEqual([true, false, true, false]);
    expect(used.get()).toBe(100);
  });
});

describe("settling", () => {
  it("charges or returns the difference", () => {
    const { lease, cell } = leased(NOW, 100);
    takeTokens(cell, 10);
    settleTokens(lease, cell, 5);
    expect([cell.get(), spentTokens(lease, cell)]).toEqual([85, 15]);
    settleTokens(lease, cell, -8);
    expect([cell.get(), spentTokens(lease, cell)]).toEqual([93, 7]);
    settleTokens(lease, cell, 0);
    expect(cell.get()).toBe(93);
  });

  it("a refund ends a cached refusal; nothing else does", () => {
    const { lease, cell } = leased(NOW, 100);
    applyReply(lease, cell, { granted: 100, code: QUOTA_EXHAUSTED, retryAfterMs: 500, refusedCost: 20 }, NOW);
    settleTokens(lease, cell, 5);
    settleTokens(lease, cell, 0);
    expect(isRefused(lease, 20, NOW)).toBe(true);
    settleTokens(lease, cell, -1);
    expect(isRefused(lease, 20, NOW)).toBe(false);
  });
});

describe("a cached refusal", () => {
  it("is cached until it expires, for requests that cost as much or more", () => {
    const { lease, cell } = leased(NOW, 0);
    applyReply(lease, cell, { granted: 0, code: QUOTA_EXHAUSTED, retryAfterMs: 500, refusedCost: 20 }, NOW);
    expect(lease.refusedCode).toBe(QUOTA_EXHAUSTED);
    expect([20, 21, 1000].map((cost) => isRefused(lease, cost, NOW + 499))).toEqual([true, true, true]);
    expect([1, 19].map((cost) => isRefused(lease, cost, NOW))).toEqual([false, false]);
    expect(isRefused(lease, 20, NOW + 500)).toBe(false);
  });

  it("is dropped when the clock is set back, so that it cannot last too long", () => {
    const { lease, cell } = leased(NOW, 0);
    applyReply(lease, cell, { granted: 0, code: QUOTA_EXHAUSTED, retryAfterMs: 500, refusedCost: 20 }, NOW);
    expect(isRefused(lease, 20, NOW - 3600000)).toBe(false);
  });

  it("lasts at least a moment, and one second if waiting does not help", () => {
    const { lease, cell } = leased(NOW, 0);
    applyReply(lease, cell, { granted: 0, code: QUOTA_EXHAUSTED, retryAfterMs: 0, refusedCost: 1 }, NOW);
    expect([isRefused(lease, 1, NOW), isRefused(lease, 1, NOW + 1)]).toEqual([true, false]);
    applyReply(lease, cell, { granted: 0, code: COST_EXCEEDS_CAPACITY, retryAfterMs: 0, refusedCost: 1 }, NOW);
    expect([isRefused(lease, 1, NOW + 999), isRefused(lease, 1, NOW + 1000)]).toEqual([true, false]);
  });

  it("ends with the next reply that grants", () => {
    const { lease, cell } = leased(NOW, 0);
    applyReply(lease, cell, { granted: 0, code: QUOTA_EXHAUSTED, retryAfterMs: 500, refusedCost: 20 }, NOW);
    applyReply(lease, cell, { granted: 5, code: OK, retryAfterMs: 0, refusedCost: 20 }, NOW + 1);
    expect(isRefused(lease, 20, NOW + 1)).toBe(false);
  });

  it("is ignored if a later grant has arrived", () => {
    const { lease, cell } = leased(NOW, 50);
    applyReply(lease, cell, { granted: 40, code: QUOTA_EXHAUSTED, retryAfterMs: 500, refusedCost: 1 }, NOW);
    expect(isRefused(lease, 1, NOW)).toBe(false);
    expect([lease.granted, cell.get(), lease.refusedCode]).toEqual([50, 50, OK]);
  });
});

describe("a report", () => {
  it("is due after the interval if anything was spent, or returned by refund", () => {
    const { lease, cell } = leased(NOW, 100);
    expect(isReportDue(lease, cell, { options: policy, level: 0, now: NOW + 1e6 })).toBe(false);
    takeTokens(cell, 1);
    expect(isReportDue(lease, cell, { options: policy, level: 0, now: NOW + 99 })).toBe(false);
    expect(isReportDue(lease, cell, { options: policy, level: 0, now: NOW + 100 })).toBe(true);
    planAt(lease, cell, NOW + 100);
    settleTokens(lease, cell, -1);
    expect(isReportDue(lease, cell, { options: policy, level: 0, now: NOW + 200 })).toBe(true);
  });

  it("is sent half as often while the store is slow", () => {
    const { lease, cell } = leased(NOW, 100);
    takeTokens(cell, 1);
    expect(isReportDue(lease, cell, { options: policy, level: 1, now: NOW + 199 })).toBe(false);
    expect(isReportDue(lease, cell, { options: policy, level: 1, now: NOW + 200 })).toBe(true);
  });

  it("is due at once after a batch of tokens", () => {
    const { lease, cell } = leased(NOW, 5000);
    takeTokens(cell, 999);
    expect(isReportDue(lease, cell, { options: policy, level: 0, now: NOW })).toBe(false);
    takeTokens(cell, 1);
    expect(isReportDue(lease, cell, { options: policy, level: 0, now: NOW })).toBe(true);
  });

  it("is due when the clock stepped back, and the next one is an interval later", () => {
    const { lease, cell } = leased(NOW, 100);
    takeTokens(cell, 1);
    const back = NOW - 3600000;
    expect(isReportDue(lease, cell, { options: policy, level: 0, now: back })).toBe(true);
    planAt(lease, cell, back);
    takeTokens(cell, 1);
    expect(isReportDue(lease, cell, { options: policy, level: 0, now: back + 99 })).toBe(false);
    expect(isReportDue(lease, cell, { options: policy, level: 0, now: back + 100 })).toBe(true);
    expect(lease.spendRate).toBe(-1);
  });
});

describe("a refill", () => {
  it("is needed below a fifth of the target", () => {
    const { lease, cell } = leased(NOW, 1000);
    takeTokens(cell, 800);
    expect(needsRefill(lease, cell, policy)).toBe(false);
    takeTokens(cell, 1);
    expect(needsRefill(lease, cell, policy)).toBe(true);
  });
});

describe("a message", () => {
  it("of a fresh lease asks for the whole reserve and needs nothing", () => {
    const lease = newLease(policy, NOW);
    expect(planAt(lease, plainCell(0), NOW)).toEqual({ granted: 0, spent: 0, returned: 0, need: 0, want: 1000 });
  });

  it("needs what the next request lacks, and wants enough for all that wait and the target", () => {
    const { lease, cell } = leased(NOW, 30);
    const message = planSync(lease, cell, { nextCost: 50, waitingCost: 120 }, { options: policy, level: 0, now: NOW });
    expect(message).toEqual({ granted: 30, spent: 0, returned: 0, need: 20, want: 120 + 1000 - 30 });
  });

  it("needs nothing for a request that the balance can pay, and never wants less than it needs", () => {
    const { lease, cell } = leased(NOW, 5000);
    expect(
      planSync(lease, cell, { nextCost: 50, waitingCost: 50 }, { options: policy, level: 0, now: NOW }),
    ).toMatchObject({ need: 0, want: 0 });
    expect(
      planSync(lease, cell, { nextCost: 9000, waitingCost: 50 }, { options: policy, level: 0, now: NOW }),
    ).toMatchObject({ need: 4000, want: 4000 });
  });

  it("reports what was spent beyond the grants and does not ask for it again", () => {
    const { lease, cell } = leased(NOW, 10);
    takeUncovered(cell, 25);
    expect(
      planSync(lease, cell, { nextCost: 5, waitingCost: 5 }, { options: policy, level: 0, now: NOW }),
    ).toMatchObject({ granted: 10, spent: 25, need: 5, want: 1005 });
  });

  it("never reports negative spending", () => {
    const { lease, cell } = leased(NOW, 10);
    settleTokens(lease, cell, -5);
    expect(planAt(lease, cell, NOW).spent).toBe(0);
  });
});

describe("the target", () => {
  /** Spends `rate` tokens per second for a second, with a report every 100 ms, and answers the target. */
  function targetAt(rate: number, level = 0): number {
    const { lease, cell } = leased(NOW, 0);
    for (let i = 1; i <= 10; i++) {
      takeUncovered(cell, rate / 10);
      planAt(lease, cell, NOW + i * 100, level);
    }
    return lease.target;
  }

  test.each([
    ["of a slow node covers a second of its spending", 300, 0, 300],
    ["is the reserve from a thousand tokens per second on", 1000, 0, 1000],
    ["stays there up to five thousand", 5000, 0, 1000],
    ["of a busy node covers a fifth of a second", 20000, 0, 4000],
    ["doubles at level 1", 300, 1, 600],
    ["is five times as large at level 2", 300, 2, 1500],
    ["is never less than one token", 0, 0, 1],
  ])("%s", (_promise, rate, level, target) => {
    expect(targetAt(rate, level)).toBe(target);
  });

  it("follows half of the way at each report", () => {
    const { lease, cell } = leased(NOW, 10000);
    takeTokens(cell, 100);
    planAt(lease, cell, NOW + 100);
    expect(lease.spendRate).toBe(1000);
    planAt(lease, cell, NOW + 200);
    expect([lease.spendRate, lease.target]).toEqual([500, 500]);
  });

  it("ignores intervals that are too short to measure, without losing their spending", () => {
    const { lease, cell } = leased(NOW, 10000);
    takeTokens(cell, 50);
    planAt(lease, cell, NOW + 9);
    expect([lease.spendRate, lease.target]).toEqual([-1, 1000]);
    takeTokens(cell, 50);
    planAt(lease, cell, NOW + 100);
    expect(lease.spendRate).toBe(1000);
  });

  it("does not fall below zero when more was refunded than spent", () => {
    const { lease, cell } = leased(NOW, 100);
    settleTokens(lease, cell, -50);
    planAt(lease, cell, NOW + 100);
    expect(lease.spendRate).toBe(0);
  });
});
