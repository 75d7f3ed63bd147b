/** Borrowing: half of the guaranteed tokens at most, 120 % owed, and only from what the cluster has to spare. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  BORROW_RATIO,
  borrowable,
  LENDING_FLOOR,
  lend,
  lendable,
  OWED_PER_TOKEN,
  repayFrom,
} from "../../../src/core/borrow.js";
import { type Bucket, MICRO } from "../../../src/core/bucket.js";

/** The limits of a bucket matter to no loan: its owner checks them. */
const limits = { held: 0, capacity: 0, rate: 0, reserve: 0 };
const debtOf = (borrowed: number) => borrowed * OWED_PER_TOKEN;

describe("the limit of borrowing", () => {
  it("is half of the guaranteed tokens per second", () => {
    expect(BORROW_RATIO).toBe(0.5);
    expect(borrowable(0, 10000 * MICRO)).toBe(5000);
    expect(borrowable(0, 3 * MICRO)).toBe(1);
    expect(borrowable(0, 0)).toBe(0);
  });

  it("shrinks by what was borrowed, and comes back as debt is repaid", () => {
    expect(borrowable(debtOf(4999), 10000 * MICRO)).toBe(1);
    expect(borrowable(debtOf(5000), 10000 * MICRO)).toBe(0);
    expect(borrowable(debtOf(5000) - 1, 10000 * MICRO)).toBe(0);
    expect(borrowable(debtOf(5000) - OWED_PER_TOKEN, 10000 * MICRO)).toBe(1);
  });

  it("is never negative, also when the guarantee was lowered since", () => {
    expect(borrowable(debtOf(5000), 10 * MICRO)).toBe(0);
  });

  it("holds over any series of loans: all that is owed is at most 60 % of the guarantee", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e6 }), fc.array(fc.integer({ min: 1, max: 1e6 })), (rate, asked) => {
        const guaranteed = rate * MICRO;
        const bucket: Bucket = { tokens: 0, debt: 0, ...limits };
        let borrowed = 0;
        for (const amount of asked) {
          if (amount <= borrowable(bucket.debt, guaranteed)) {
            lend(bucket, amount);
            borrowed += amount;
          }
        }
        expect(bucket).toEqual({ tokens: borrowed * MICRO, debt: debtOf(borrowed), ...limits });
        expect(borrowed).toBe(Math.floor(rate / 2) - borrowable(bucket.debt, guaranteed));
      }),
    );
  });
});

describe("the cluster lends", () => {
  const cluster = (tokens: number, reserve = 0): Bucket => ({
    ...{ tokens, debt: 0, capacity: 1000 * MICRO, held: 0, rate: 0, reserve },
  });

  it("nothing of the reserve of the apps' own rates", () => {
    expect(lendable(cluster(1000 * MICRO, 400 * MICRO))).toBe(600);
    expect(lendable(cluster(401 * MICRO, 400 * MICRO))).toBe(1);
    expect(lendable(cluster(400 * MICRO, 400 * MICRO))).toBe(0);
  });

  it("only what it holds above a fifth of its capacity", () => {
    expect(LENDING_FLOOR).toBe(0.2);
    expect(lendable(cluster(1000 * MICRO))).toBe(800);
    expect(lendable(cluster(201 * MICRO))).toBe(1);
    expect(lendable(cluster(201 * MICRO - 1))).toBe(0);
    expect(lendable(cluster(200 * MICRO))).toBe(0);
    expect(lendable(cluster(-5 * MICRO))).toBe(0);
  });
});

it("a loan puts the tokens into the bucket and 120 % of them onto the debt", () => {
  const bucket: Bucket = { tokens: 3 * MICRO, debt: 7, ...limits };
  lend(bucket, 100);
  expect(bucket).toEqual({ tokens: 103 * MICRO, debt: 120 * MICRO + 7, ...limits });
});

describe("repayment", () => {
  it("pays as much as was asked, is owed and is there, whichever is least", () => {
    const pay = (tokens: number, debt: number, amount: number) => {
      const bucket: Bucket = { tokens: tokens * MICRO, debt: debt * MICRO, ...limits };
      return [repayFrom(bucket, amount), bucket.tokens / MICRO, bucket.debt / MICRO];
    };
    expect(pay(100, 60, 10)).toEqual([10, 90, 50]);
    expect(pay(100, 60, 1000)).toEqual([60, 40, 0]);
    expect(pay(25.5, 60, 1000)).toEqual([25, 0.5, 35]);
    expect(pay(-3, 60, 10)).toEqual([0, -3, 60]);
    expect(pay(10, 0, 10)).toEqual([0, 10, 0]);
  });

  it("pays the last part of a token with a whole one", () => {
    const bucket: Bucket = { tokens: 5 * MICRO, debt: 1200000, ...limits };
    expect(repayFrom(bucket, 5)).toBe(2);
    expect(bucket).toEqual({ tokens: 3 * MICRO, debt: 0, ...limits });
  });

  it("never overdraws the bucket and never leaves a negative debt", () => {
    const level = fc.integer({ min: -(10 ** 12), max: 10 ** 12 });
    fc.assert(
      fc.property(level, fc.integer({ min: 0, max: 10 ** 12 }), fc.nat(), (tokens, debt, amount) => {
        const bucket: Bucket = { tokens, debt, ...limits };
        const paid = repayFrom(bucket, amount);
        expect(Number.isInteger(paid) && paid >= 0 && paid <= amount).toBe(true);
        expect(bucket.tokens).toBe(tokens - paid * MICRO);
        expect(bucket.tokens).toBeGreaterThanOrEqual(Math.min(tokens, 0));
        expect(bucket.debt).toBe(Math.max(debt - paid * MICRO, 0));
      }),
    );
  });
});
