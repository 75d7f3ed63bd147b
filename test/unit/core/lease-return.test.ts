/** What a lease gives back: when it is idle, in an emergency, at the end, and what a new epoch still owes. */
import { describe, expect, it } from "vitest";
import { QUOTA_EXHAUSTED } from "../../../src/core/codes.js";
import {
  applyReply,
  beginEpoch,
  type Cell,
  cutLease,
  defaultLeaseOptions,
  isRefused,
  type Lease,
  planSync,
  returnAll,
  spentTokens,
  takeTokens,
  takeUncovered,
} from "../../../src/core/lease.js";
import { leased } from "./lease-cells.js";

const policy = defaultLeaseOptions;
const NOW = 1750000000000;
const planAt = (lease: Lease, cell: Cell, now: number) =>
  planSync(lease, cell, { nextCost: 0, waitingCost: 0 }, { options: policy, level: 0, now });

describe("an idle lease", () => {
  it("returns its tokens after a second, and asks for none", () => {
    const { lease, cell } = leased(NOW, 1000);
    takeTokens(cell, 100);
    planAt(lease, cell, NOW + 100);
    expect(planAt(lease, cell, NOW + 1099)).toMatchObject({ returned: 0 });
    const message = planAt(lease, cell, NOW + 1100);
    expect(message).toEqual({ granted: 1000, spent: 100, returned: 900, need: 0, want: 0 });
    expect(cell.get()).toBe(0);
  });

  it("is not idle while requests wait", () => {
    const { lease, cell } = leased(NOW, 10);
    expect(
      planSync(lease, cell, { nextCost: 50, waitingCost: 50 }, { options: policy, level: 0, now: NOW + 5000 }),
    ).toMatchObject({ returned: 0, need: 40 });
    expect(planAt(lease, cell, NOW + 5999)).toMatchObject({ returned: 0 });
  });

  it("counts its second anew when the clock steps back", () => {
    const { lease, cell } = leased(NOW, 10);
    const back = NOW - 3600000;
    expect(planAt(lease, cell, back)).toMatchObject({ returned: 0 });
    expect(planAt(lease, cell, back + 999)).toMatchObject({ returned: 0 });
    expect(planAt(lease, cell, back + 1000)).toMatchObject({ returned: 10 });
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
