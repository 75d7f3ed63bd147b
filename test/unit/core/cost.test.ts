/** What a request costs: the price list to the token, what is no size, and how an estimate is learned and settled. */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  bandwidthProfile,
  baseCost,
  type CostProfile,
  deviation,
  estimate,
  INVALID_COST,
  iopsProfile,
  isSize,
  KIB,
  learnSizes,
  MAX_BYTES,
  MAX_COST,
  MIB,
  newLearnedSizes,
  price,
  settlement,
  standardProfile,
  UNKNOWN_LENGTH,
} from "../../../src/core/cost.js";

const noSizes = [
  -1,
  -0.5,
  0.5,
  1.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  2 ** 53 + 2,
  1e308,
];
const size = fc.integer({ min: 0, max: 2 ** 53 - 1 });
const profile = fc.constantFrom(standardProfile, iopsProfile, bandwidthProfile);
const method = fc.constantFrom("GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT", "PATCH", "PURGE", "get", "");

describe("the price", () => {
  test.each([
    ["standard", standardProfile, "GET", 1024, 2],
    ["standard", standardProfile, "PUT", MIB, 21],
    ["standard", standardProfile, "GET", 0, 1],
    ["standard", standardProfile, "PUT", 1024 * MIB, 16389],
    ["bandwidth", bandwidthProfile, "PUT", 1024 * MIB, 1000000],
    ["standard", standardProfile, "DELETE", 0, 2],
    ["standard", standardProfile, "GET", 64 * KIB, 2],
    ["standard", standardProfile, "GET", 64 * KIB + 1, 3],
    ["bandwidth", bandwidthProfile, "DELETE", 10 * KIB, 11],
    ["iops", iopsProfile, "PUT", MIB, 6],
    ["iops", iopsProfile, "GET", 1024 * MIB, 65],
    ["standard", standardProfile, "GET", MAX_BYTES, MAX_COST],
  ] as const)("of %s %o %s with %i bytes", (_name, priced, verb, bytes, cost) => {
    expect(price(priced, verb, bytes)).toBe(cost);
  });

  test.each(noSizes)("is refused for %d bytes, which is no size", (bytes) => {
    expect(isSize(bytes)).toBe(false);
    expect(price(standardProfile, "GET", bytes)).toBe(INVALID_COST);
    expect(estimate(standardProfile, "GET", bytes === UNKNOWN_LENGTH ? -2 : bytes, newLearnedSizes())).toBe(
      INVALID_COST,
    );
  });

  it("is a whole number from 0 to the highest cost, and never falls when more bytes move", () => {
    fc.assert(
      fc.property(profile, method, size, size, (priced, verb, one, other) => {
        const [less, more] = [Math.min(one, other), Math.max(one, other)];
        const cost = price(priced, verb, more);
        expect(Number.isInteger(cost)).toBe(true);
        expect(cost).toBeGreaterThanOrEqual(price(priced, verb, less));
        expect(cost).toBeLessThanOrEqual(MAX_COST);
      }),
    );
  });

  it("is never negative, whatever the profile", () => {
    const free: CostProfile = { ...standardProfile, base: { ...standardProfile.base, GET: -5 } };
    expect(price(free, "GET", 0)).toBe(0);
    expect(price(free, "GET", 64 * KIB * 7)).toBe(2);
  });

  it("has a base for each method, and one for all the others", () => {
    const base = { GET: 11, HEAD: 12, OPTIONS: 13, DELETE: 14, POST: 15, PUT: 16, PATCH: 17, other: 18 };
    const own: CostProfile = { ...standardProfile, base };
    for (const [verb, cost] of Object.entries(base)) expect(baseCost(own, verb)).toBe(cost);
    for (const verb of ["get", "PROPFIND", "", "constructor", "__proto__"]) expect(baseCost(own, verb)).toBe(18);
  });
});

describe("the estimate", () => {
  it("counts the declared body alone while nothing is learned", () => {
    expect(estimate(standardProfile, "PUT", MIB, newLearnedSizes())).toBe(21);
    expect(estimate(standardProfile, "GET", 0, newLearnedSizes())).toBe(1);
  });

  it("is the base price for a chunked body of which nothing is known", () => {
    expect(estimate(standardProfile, "POST", UNKNOWN_LENGTH, newLearnedSizes())).toBe(5);
  });

  it("adds the learned response, and for a chunked body the learned request", () => {
    const learned = newLearnedSizes();
    learnSizes(learned, 2 * 64 * KIB, 3 * 64 * KIB);
    expect(estimate(standardProfile, "POST", 64 * KIB, learned)).toBe(5 + 1 + 3);
    expect(estimate(standardProfile, "POST", UNKNOWN_LENGTH, learned)).toBe(5 + 2 + 3);
  });

  it("follows a change of sizes within about twenty exchanges", () => {
    const learned = newLearnedSizes();
    learnSizes(learned, 0, 100);
    expect(learned).toEqual({ requestBytes: 0, responseBytes: 100 });
    learnSizes(learned, 0, 200);
    expect(learned.responseBytes).toBeCloseTo(110, 9);
    for (let i = 0; i < 20; i++) learnSizes(learned, 0, 1000);
    expect(learned.responseBytes).toBeGreaterThan(850);
  });

  it("ignores invalid sizes", () => {
    const learned = { requestBytes: 10, responseBytes: 20 };
    for (const bytes of noSizes) learnSizes(learned, bytes, bytes);
    expect(learned).toEqual({ requestBytes: 10, responseBytes: 20 });
  });

  it("stays a valid cost after any history of sizes", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(size, size)), size, (history, contentLength) => {
        const learned = newLearnedSizes();
        for (const [request, response] of history) learnSizes(learned, request, response);
        for (const length of [contentLength, UNKNOWN_LENGTH]) {
          const cost = estimate(bandwidthProfile, "PUT", length, learned);
          expect(Number.isInteger(cost) && cost >= 1 && cost <= MAX_COST).toBe(true);
        }
      }),
    );
  });
});

describe("the settlement", () => {
  it("charges or refunds the error of the estimate", () => {
    expect(settlement(2, 21)).toBe(19);
    expect(settlement(21, 2)).toBe(-19);
    expect(settlement(7, 7)).toBe(0);
  });

  it("moves no tokens if a cost is invalid", () => {
    expect(settlement(5, INVALID_COST)).toBe(0);
    expect(settlement(INVALID_COST, 5)).toBe(0);
  });

  it("deviation is the relative error of the estimate", () => {
    expect(deviation(10, 10)).toBe(0);
    expect(deviation(10, 20)).toBe(1);
    expect(deviation(10, 0)).toBe(1);
    expect(deviation(0, 3)).toBe(3);
  });
});
