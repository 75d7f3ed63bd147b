/** The local lease: pays from what was granted, remembers refusals, and aims at what it spends while others lack nothing. */
import { describe, expect, it, test } from "vitest";
import { type AllowanceUse, newAllowanceUse, takeAllowance } from "../../../src/core/allowance.js";
import { COST_EXCEEDS_CAPACITY, OK, QUOTA_EXHAUSTED } from "../../../src/core/codes.js";
import {
  applyReply,
  type Cell,
  defaultLeaseOptions,
  isRefused,
  isReportDue,
  type LeaseSituation,
  MISS,
  needsRefill,
  newLease,
  planSync,
  spentTokens,
  takeTokens,
  takeUncovered,
} from "../../../src/core/lease.js";
import { leased, NOBODY, plainCell, situation } from "./lease-cells.js";

const policy = defaultLeaseOptions;
const NOW = 1750000000000;
const SCARCE = { plentiful: false };

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

  describe("without the store", () => {
    const take = (used: AllowanceUse, cost: number, now: number, allowance = { rate: 10, burst: 100 }) =>
      takeAllowance(used, allowance, cost, now);

    it("admits the burst at once, then the rate, and counts nothing that it refuses", () => {
      const used = newAllowanceUse();
      expect([60, 50, 40, 1].map((cost) => take(used, cost, NOW))).toEqual([true, false, true, false]);
      expect([10, 1].map((cost) => take(used, cost, NOW + 1000))).toEqual([true, false]);
      // Never more than the burst at once, however long nothing was spent.
      expect([101, 100, 1].map((cost) => take(used, cost, NOW + 1_000_000))).toEqual([false, true, false]);
    });

    it("admits every request that a full bucket of a slow limit can pay", () => {
      const slow = { rate: 5 / 86_400, burst: 5 };
      const used = newAllowanceUse();
      expect([3, 2, 1].map((cost) => take(used, cost, 1_000, slow))).toEqual([true, true, false]);
      expect([1, 1].map((cost) => take(used, cost, 1_000 + 17_280_000, slow))).toEqual([true, false]);
    });

    it("loses no tokens to rounding at a billion tokens per second", () => {
      const fast = { rate: 1e9, burst: 1e9 };
      const used = newAllowanceUse();
      const now = 1_800_000_000_000;
      for (let i = 0; i < 1000; i++) expect(take(used, 1e6, now, fast)).toBe(true);
      expect(take(used, 1e4, now, fast)).toBe(false);
    });

    it("refills nothing when the clock is set back, and continues from there", () => {
      const used = newAllowanceUse();
      expect(take(used, 100, NOW)).toBe(true);
      expect(take(used, 1, NOW - 3_600_000)).toBe(false);
      expect([10, 1].map((cost) => take(used, cost, NOW - 3_599_000))).toEqual([true, false]);
    });

    it("follows a changed limit", () => {
      const used = newAllowanceUse();
      expect(take(used, 100, NOW)).toBe(true);
      expect([901, 900].map((cost) => take(used, cost, NOW, { rate: 1000, burst: 1000 }))).toEqual([false, true]);
      expect([51, 50].map((cost) => take(used, cost, NOW + 50, { rate: 1000, burst: 1000 }))).toEqual([false, true]);
      expect(take(used, 1, NOW + 100, { rate: 10, burst: 10 })).toBe(false);
    });

    it("refuses nothing that the bucket can pay while workers refill it at once", () => {
      // Two other workers, each of which takes a token at one of the steps of the first.
      const steps = 8;
      for (let second = 0; second < steps; second++) {
        for (let third = 0; third < steps; third++) {
          const use = newAllowanceUse();
          expect(take(use, 10, NOW - 3_600_000)).toBe(true);
          let step = 0;
          const taken: boolean[] = [];
          const interrupt = () => {
            step++;
            if (step === second || step === third) taken.push(take(shared, 1, NOW));
          };
          const interrupted = (cell: Cell): Cell => ({
            get: () => [cell.get(), interrupt()][0]!,
            add: (delta) => [cell.add(delta), interrupt()][0]!,
          });
          const shared = { used: interrupted(use.used), refilledAt: interrupted(use.refilledAt) };
          taken.push(take(shared, 1, NOW));
          expect(taken, `steps ${second} and ${third}`).not.toContain(false);
          // The refill may include what was taken while it was calculated, but never saves up tokens.
          expect(use.used.get()).toBeGreaterThanOrEqual(0);
          expect(use.used.get()).toBeLessThanOrEqual(taken.length);
        }
      }
    });
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

  it("needs its code: a worker may see the time of another one's refusal before the rest of the record", () => {
    const { lease } = leased(NOW, 0);
    lease.refusedUntil = NOW + 500;
    expect(isRefused(lease, 1, NOW)).toBe(false);
  });

  it("is ignored if a later grant has arrived", () => {
    const { lease, cell } = leased(NOW, 50);
    applyReply(lease, cell, { granted: 40, code: QUOTA_EXHAUSTED, retryAfterMs: 500, refusedCost: 1 }, NOW);
    expect(isRefused(lease, 1, NOW)).toBe(false);
    expect([lease.granted, cell.get(), lease.refusedCode]).toEqual([50, 50, OK]);
  });
});

describe("a report", () => {
  it("while tokens are plentiful is due after the report interval if anything was spent or refunded", () => {
    const { lease, cell } = leased(NOW, 100);
    expect(isReportDue(lease, cell, situation(NOW + 1e6))).toBe(false);
    takeTokens(cell, 1);
    expect(isReportDue(lease, cell, situation(NOW + 29_999))).toBe(false);
    expect(isReportDue(lease, cell, situation(NOW + 30_000))).toBe(true);
    planSync(lease, cell, NOBODY, situation(NOW + 30_000));
    cell.add(1);
    expect(isReportDue(lease, cell, situation(NOW + 60_000))).toBe(true);
  });

  it("while tokens are scarce is due after the sync interval, also to return unused tokens", () => {
    const { lease, cell } = leased(NOW, 100);
    expect(isReportDue(lease, cell, situation(NOW + 99, SCARCE))).toBe(false);
    expect(isReportDue(lease, cell, situation(NOW + 100, SCARCE))).toBe(true);
    takeTokens(cell, 100);
    expect(isReportDue(lease, cell, situation(NOW + 99, SCARCE))).toBe(false);
    expect(isReportDue(lease, cell, situation(NOW + 100, SCARCE))).toBe(true);
    planSync(lease, cell, NOBODY, situation(NOW + 100, SCARCE));
    // Nothing to report and nothing to return.
    expect(isReportDue(lease, cell, situation(NOW + 1e6, SCARCE))).toBe(false);
  });

  it("is sent half as often while the store is slow", () => {
    const { lease, cell } = leased(NOW, 100);
    takeTokens(cell, 1);
    expect(isReportDue(lease, cell, situation(NOW + 59_999, { level: 1 }))).toBe(false);
    expect(isReportDue(lease, cell, situation(NOW + 60_000, { level: 1 }))).toBe(true);
    expect(isReportDue(lease, cell, situation(NOW + 199, { level: 1, ...SCARCE }))).toBe(false);
    expect(isReportDue(lease, cell, situation(NOW + 200, { level: 1, ...SCARCE }))).toBe(true);
  });

  it("is due at once after a batch of tokens", () => {
    const { lease, cell } = leased(NOW, 5000);
    takeTokens(cell, 999);
    expect(isReportDue(lease, cell, situation(NOW))).toBe(false);
    takeTokens(cell, 1);
    expect(isReportDue(lease, cell, situation(NOW))).toBe(true);
  });

  it("is due when the clock stepped back, and the next one is an interval later", () => {
    const { lease, cell } = leased(NOW, 100);
    takeTokens(cell, 1);
    const back = NOW - 3600000;
    expect(isReportDue(lease, cell, situation(back))).toBe(true);
    planSync(lease, cell, NOBODY, situation(back));
    takeTokens(cell, 1);
    expect(isReportDue(lease, cell, situation(back + 29_999))).toBe(false);
    expect(isReportDue(lease, cell, situation(back + 30_000))).toBe(true);
    expect(lease.spendRate).toBe(-1);
  });
});

describe("a refill", () => {
  it("is needed below a fifth of the target", () => {
    const { lease, cell } = leased(NOW, 1000);
    lease.target = 1000;
    takeTokens(cell, 800);
    expect(needsRefill(lease, cell, policy)).toBe(false);
    takeTokens(cell, 1);
    expect(needsRefill(lease, cell, policy)).toBe(true);
  });

  it("is not needed for the whole target if the store granted less: a part of the grant counts", () => {
    const lease = newLease(policy, NOW);
    const cell = plainCell(0);
    applyReply(lease, cell, { granted: 5, code: OK, retryAfterMs: 0, refusedCost: 0 }, NOW);
    expect([lease.target, needsRefill(lease, cell, policy)]).toEqual([5, false]);
  });
});

describe("a message", () => {
  it("of a fresh lease asks for a few tokens, at most the reserve, and needs nothing", () => {
    const lease = newLease(policy, NOW);
    const message = { granted: 0, spent: 0, returned: 0, need: 0 };
    expect(planSync(lease, plainCell(0), NOBODY, situation(NOW))).toEqual({ ...message, want: 10 });
    const options = { ...policy, reserve: 4 };
    const small = newLease(options, NOW);
    expect(planSync(small, plainCell(0), NOBODY, situation(NOW, { options }))).toEqual({ ...message, want: 4 });
  });

  it("needs what the next request lacks, and wants enough for all that wait and the target", () => {
    const { lease, cell } = leased(NOW, 30);
    const message = planSync(lease, cell, { nextCost: 50, waitingCost: 120 }, situation(NOW));
    expect(message).toEqual({ granted: 30, spent: 0, returned: 0, need: 20, want: 120 + 10 - 30 });
  });

  it("asks for no more than what waits while tokens are scarce and no spending was measured", () => {
    const { lease, cell } = leased(NOW, 30);
    const message = planSync(lease, cell, { nextCost: 50, waitingCost: 120 }, situation(NOW, SCARCE));
    expect(message).toMatchObject({ need: 20, want: 120 - 30 });
  });

  it("needs nothing for a request that the balance can pay, and never wants less than it needs", () => {
    const { lease, cell } = leased(NOW, 5000);
    expect(planSync(lease, cell, { nextCost: 50, waitingCost: 50 }, situation(NOW))).toMatchObject({
      need: 0,
      want: 0,
    });
    expect(planSync(lease, cell, { nextCost: 9000, waitingCost: 50 }, situation(NOW))).toMatchObject({
      need: 4000,
      want: 4000,
    });
  });

  it("reports what was spent beyond the grants and does not ask for it again", () => {
    const { lease, cell } = leased(NOW, 10);
    takeUncovered(cell, 25);
    expect(planSync(lease, cell, { nextCost: 5, waitingCost: 5 }, situation(NOW))).toMatchObject({
      granted: 10,
      spent: 25,
      need: 5,
      want: 5 + 10,
    });
  });

  it("never reports negative spending", () => {
    const { lease, cell } = leased(NOW, 10);
    cell.add(5);
    expect(planSync(lease, cell, NOBODY, situation(NOW)).spent).toBe(0);
  });
});

describe("the target", () => {
  /** Spends `rate` tokens per second for a second, with a report every 100 ms, and returns the target. */
  function targetAt(rate: number, given: Partial<LeaseSituation>): number {
    const { lease, cell } = leased(NOW, 0);
    for (let i = 1; i <= 10; i++) {
      takeUncovered(cell, rate / 10);
      planSync(lease, cell, NOBODY, situation(NOW + i * 100, given));
    }
    return lease.target;
  }

  test.each<[string, number, Partial<LeaseSituation>, number]>([
    ["of an unused lease is a few tokens", 0, {}, 10],
    ["of a slow node covers a minute of its spending", 10, {}, 600],
    ["is the reserve from a sixtieth of it per second on", 20, {}, 1000],
    ["stays there up to a thousand tokens per second", 1000, {}, 1000],
    ["of a busy node covers a second", 20000, {}, 20000],
    ["doubles at level 1", 10, { level: 1 }, 1200],
    ["is five times as large at level 2", 10, { level: 2 }, 3000],
    ["covers 30 ms while tokens are scarce", 1000, SCARCE, 30],
    ["is zero for a slow node while tokens are scarce: each request asks", 30, SCARCE, 0],
    ["covers a fifth of a second per level if the store is slow as well", 1000, { level: 1, ...SCARCE }, 400],
  ])("%s", (_promise, rate, given, target) => {
    expect(targetAt(rate, given)).toBe(target);
  });

  it("follows half of the way at each report, and all of it after a second", () => {
    const { lease, cell } = leased(NOW, 10000);
    takeTokens(cell, 400);
    planSync(lease, cell, NOBODY, situation(NOW + 100));
    expect([lease.spendRate, lease.target]).toEqual([4000, 4000]);
    planSync(lease, cell, NOBODY, situation(NOW + 200));
    expect([lease.spendRate, lease.target]).toEqual([2000, 2000]);
    takeTokens(cell, 10);
    planSync(lease, cell, NOBODY, situation(NOW + 1200));
    expect([lease.spendRate, lease.target]).toEqual([10, 600]);
  });

  it("ignores intervals that are too short to measure, without losing their spending", () => {
    const { lease, cell } = leased(NOW, 10000);
    takeTokens(cell, 50);
    planSync(lease, cell, NOBODY, situation(NOW + 9));
    expect([lease.spendRate, lease.target]).toEqual([-1, 10]);
    takeUncovered(cell, 50);
    planSync(lease, cell, NOBODY, situation(NOW + 100));
    expect(lease.spendRate).toBe(1000);
  });

  it("does not fall below zero when more was refunded than spent", () => {
    const { lease, cell } = leased(NOW, 100);
    cell.add(50);
    planSync(lease, cell, NOBODY, situation(NOW + 100));
    expect(lease.spendRate).toBe(0);
  });
});
