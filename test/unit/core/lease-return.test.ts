/** What a lease gives back: when it is idle, in an emergency, at the end, and what a new epoch still owes. */
import { describe, expect, it } from "vitest";
import { QUOTA_EXHAUSTED } from "../../../src/core/codes.js";
import {
  applyReply,
  beginEpoch,
  type Cell,
  cutLease,
  isRefused,
  type Lease,
  planSync,
  returnAll,
  spentTokens,
  takeTokens,
  takeUncovered,
} from "../../../src/core/lease.js";
import { leased, NOBODY, situation } from "./lease-cells.js";

const NOW = 1750000000000;
const SCARCE = { plentiful: false };
const planAt = (lease: Lease, cell: Cell, now: number, given = {}) =>
  planSync(lease, cell, NOBODY, situation(now, given));

describe("while tokens are plentiful, a lease", () => {
  it("is kept for 90 seconds without use; then it returns its tokens and asks for none", () => {
    const { lease, cell } = leased(NOW, 20);
    takeTokens(cell, 5);
    planAt(lease, cell, NOW + 100);
    expect(planAt(lease, cell, NOW + 90_099)).toMatchObject({ returned: 0 });
    const message = planAt(lease, cell, NOW + 90_100);
    expect(message).toEqual({ granted: 20, spent: 5, returned: 15, need: 0, want: 0 });
    expect(cell.get()).toBe(0);
  });

  it("returns what exceeds twice its target", () => {
    const { lease, cell } = leased(NOW, 5000);
    takeTokens(cell, 100);
    expect(planAt(lease, cell, NOW + 10_000)).toMatchObject({ spent: 100, returned: 4900 - 2 * 600 });
    expect([lease.target, cell.get()]).toEqual([600, 1200]);
  });

  it("is not idle while requests wait", () => {
    const { lease, cell } = leased(NOW, 10);
    const waiting = { nextCost: 50, waitingCost: 50 };
    expect(planSync(lease, cell, waiting, situation(NOW + 100_000))).toMatchObject({ returned: 0, need: 40 });
    expect(planAt(lease, cell, NOW + 189_999)).toMatchObject({ returned: 0 });
    expect(planAt(lease, cell, NOW + 190_000)).toMatchObject({ returned: 10 });
  });

  it("counts its idle time anew when the clock steps back", () => {
    const { lease, cell } = leased(NOW, 10);
    const back = NOW - 3600000;
    expect(planAt(lease, cell, back)).toMatchObject({ returned: 0 });
    expect(planAt(lease, cell, back + 89_999)).toMatchObject({ returned: 0 });
    expect(planAt(lease, cell, back + 90_000)).toMatchObject({ returned: 10 });
  });
});

describe("while tokens are scarce, a lease", () => {
  it("keeps 30 ms of its spending and returns the rest", () => {
    const { lease, cell } = leased(NOW, 1000);
    takeTokens(cell, 100);
    expect(planAt(lease, cell, NOW + 100, SCARCE)).toMatchObject({ spent: 100, returned: 870, want: 0 });
    expect(cell.get()).toBe(30);
  });

  it("that was not used for one sync interval returns everything and asks only for its target", () => {
    const { lease, cell } = leased(NOW, 1000);
    takeTokens(cell, 100);
    planAt(lease, cell, NOW + 100, SCARCE);
    expect(planAt(lease, cell, NOW + 200, SCARCE)).toMatchObject({ returned: 900, need: 0, want: 15 });
    expect(planAt(lease, cell, NOW + 5000, SCARCE)).toMatchObject({ returned: 900, need: 0, want: 0 });
  });

  it("keeps its target if it is asked again within the interval, as after a recall", () => {
    const { lease, cell } = leased(NOW, 1000);
    takeTokens(cell, 100);
    planAt(lease, cell, NOW + 100);
    expect(planAt(lease, cell, NOW + 105, SCARCE)).toMatchObject({ returned: 870 });
    expect(cell.get()).toBe(30);
  });

  it("returns nothing while requests wait: they may be paid from it", () => {
    const { lease, cell } = leased(NOW, 40);
    const waiting = { nextCost: 50, waitingCost: 50 };
    expect(planSync(lease, cell, waiting, situation(NOW + 100, SCARCE))).toMatchObject({ returned: 0, need: 10 });
  });
});

describe("returned tokens", () => {
  it("are cut to the ratio of the emergency", () => {
    const { lease, cell } = leased(NOW, 101);
    cutLease(lease, cell, 0.5);
    expect([cell.get(), lease.returned]).toEqual([50, 51]);
    cutLease(lease, cell, 0);
    expect([cell.get(), lease.returned]).toEqual([0, 101]);
  });

  it("are zero for an overdrawn lease", () => {
    const { lease, cell } = leased(NOW, 10);
    takeUncovered(cell, 15);
    cutLease(lease, cell, 0.1);
    returnAll(lease, cell);
    expect([cell.get(), lease.returned]).toEqual([-5, 0]);
  });

  it("are everything that is left when the node stops", () => {
    const { lease, cell } = leased(NOW, 10);
    takeTokens(cell, 3);
    returnAll(lease, cell);
    expect([cell.get(), lease.returned, spentTokens(lease, cell)]).toEqual([0, 7, 3]);
  });
});

describe("a new epoch", () => {
  it("drops the tokens of the old one and starts counting at zero", () => {
    const { lease, cell } = leased(NOW, 100);
    takeTokens(cell, 30);
    applyReply(lease, cell, { granted: 100, code: QUOTA_EXHAUSTED, retryAfterMs: 500, refusedCost: 1 }, NOW);
    const { spent } = planAt(lease, cell, NOW + 100);
    beginEpoch(lease, cell, spent, NOW + 110);
    expect(cell.get()).toBe(0);
    expect(isRefused(lease, 1, NOW + 110)).toBe(false);
    expect(planAt(lease, cell, NOW + 110)).toMatchObject({ granted: 0, spent: 0, returned: 0 });
  });

  it("charges what was spent after the last report of the old one", () => {
    const { lease, cell } = leased(NOW, 100);
    takeTokens(cell, 30);
    const { spent } = planAt(lease, cell, NOW + 100);
    takeTokens(cell, 12);
    beginEpoch(lease, cell, spent, NOW + 110);
    expect(cell.get()).toBe(-12);
    expect(planAt(lease, cell, NOW + 110)).toMatchObject({ granted: 0, spent: 12, returned: 0 });
  });
});
