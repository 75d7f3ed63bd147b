/** What a request costs: the price list to the token, what is no size, and how an estimate is learned and settled. */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  bandwidthProfile,
  baseCost,
  type CostProfile,
  checkAge,
  declaredCost,
  deviation,
  estimate,
  HALF_LIFE_MS,
  INVALID_COST,
  iopsProfile,
  isCheckDue,
  isSize,
  KIB,
  learnedSizes,
  learnSizes,
  MAX_BYTES,
  MAX_COST,
  MIB,
  newLearnedSizes,
  payableBytes,
  price,
  pricedBytes,
  reportedCost,
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

describe("a profile that counts one direction", () => {
  const uploads: CostProfile = { ...standardProfile, countedBytes: "request" };
  const downloads: CostProfile = { ...standardProfile, countedBytes: "response" };

  it("prices, estimates and declares only the bytes of that direction", () => {
    const learned = { ...newLearnedSizes(), requestBytes: 2 * 64 * KIB, responseBytes: 3 * 64 * KIB };
    expect([uploads, downloads, standardProfile].map((one) => pricedBytes(one, 1, 10))).toEqual([1, 10, 11]);
    expect(estimate(uploads, "POST", 64 * KIB, learned)).toBe(5 + 1);
    expect(estimate(uploads, "POST", UNKNOWN_LENGTH, learned)).toBe(5 + 2);
    expect(estimate(downloads, "POST", 64 * KIB, learned)).toBe(5 + 3);
    expect(estimate(downloads, "POST", UNKNOWN_LENGTH, learned)).toBe(5 + 3);
    expect(declaredCost(uploads, "POST", 64 * KIB)).toBe(5 + 1);
    expect(declaredCost(downloads, "POST", 64 * KIB)).toBe(5);
  });

  it("rejects an invalid length, also of a body that it does not count", () => {
    expect(estimate(downloads, "POST", Number.NaN, newLearnedSizes())).toBe(INVALID_COST);
  });
});

describe("a cost that a backend states", () => {
  it.each([
    ["0", 0],
    ["40", 40],
    ["0000007", 7],
    ["1000000", 1_000_000],
  ])("%s is valid", (text, cost) => expect(reportedCost(text)).toBe(cost));

  it.each(["", " 5", "5 ", "-5", "+5", "5.0", "1e3", "0x10", "NaN", "inf", "40, 40", "1000001", "9".repeat(400)])(
    "%j is ignored",
    (text) => expect(reportedCost(text)).toBe(INVALID_COST),
  );
});

it("sizes are learned separately for a route with its own prices", () => {
  const byMethod = {};
  const onRoute = { ...standardProfile, route: "/upload" };
  learnSizes(learnedSizes(byMethod, onRoute, "GET"), 0, MIB, MAX_BYTES);
  expect(learnedSizes(byMethod, standardProfile, "GET").responseBytes).toBe(0);
  expect(learnedSizes(byMethod, onRoute, "GET").responseBytes).toBeGreaterThan(0);
});

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
    const learned = { ...newLearnedSizes(), requestBytes: 2 * 64 * KIB, responseBytes: 3 * 64 * KIB };
    expect(estimate(standardProfile, "POST", 64 * KIB, learned)).toBe(5 + 1 + 3);
    expect(estimate(standardProfile, "POST", UNKNOWN_LENGTH, learned)).toBe(5 + 2 + 3);
    expect(declaredCost(standardProfile, "POST", 64 * KIB)).toBe(5 + 1);
    expect(declaredCost(standardProfile, "POST", UNKNOWN_LENGTH)).toBe(5);
  });

  it("counts the first size half, and follows a change within about twenty exchanges", () => {
    const learned = newLearnedSizes();
    learnSizes(learned, 40, 100, MAX_BYTES);
    expect(learned).toMatchObject({ requestBytes: 20, responseBytes: 50 });
    learnSizes(learned, 40, 100, MAX_BYTES);
    expect(learned.responseBytes).toBeCloseTo(200 / 3, 9);
    for (let i = 0; i < 20; i++) learnSizes(learned, 0, 1000, MAX_BYTES);
    expect(learned.responseBytes).toBeGreaterThan(850);
    for (let i = 0; i < 20; i++) learnSizes(learned, 0, 0, MAX_BYTES);
    expect(learned.responseBytes).toBeLessThan(150);
  });

  it("forgets a single large first response within ten exchanges", () => {
    const learned = newLearnedSizes();
    learnSizes(learned, 0, 100 * 64 * KIB, MAX_BYTES);
    for (let i = 0; i < 9; i++) learnSizes(learned, 0, 0, MAX_BYTES);
    expect(estimate(standardProfile, "GET", 0, learned)).toBeLessThanOrEqual(1 + 10);
  });

  it("ignores invalid sizes", () => {
    const learned = { ...newLearnedSizes(), requestBytes: 10, responseBytes: 20 };
    for (const bytes of noSizes) learnSizes(learned, bytes, bytes, MAX_BYTES);
    expect(learned).toMatchObject({ requestBytes: 10, responseBytes: 20 });
  });

  it("never learns more than what the given tokens can pay", () => {
    const tokens = fc.integer({ min: 0, max: 2_000_000 });
    fc.assert(
      fc.property(profile, method, tokens, fc.array(fc.tuple(size, size)), (priced, verb, burst, history) => {
        const most = payableBytes(priced, verb, burst);
        const highest = Math.max(Math.min(burst, MAX_COST), baseCost(priced, verb));
        expect(price(priced, verb, most)).toBeLessThanOrEqual(highest);
        expect(price(priced, verb, most + priced.quantum)).toBe(Math.min(highest + 1, MAX_COST));
        const learned = newLearnedSizes();
        for (const [request, response] of history) learnSizes(learned, request, response, most);
        expect(Math.max(learned.requestBytes, learned.responseBytes)).toBeLessThanOrEqual(most);
        expect(estimate(priced, verb, 0, learned)).toBeLessThanOrEqual(highest);
      }),
    );
    expect(payableBytes({ ...standardProfile, bandwidth: 0 }, "GET", 20)).toBe(MAX_BYTES);
    expect(payableBytes({ ...standardProfile, maxCost: 10 }, "GET", 20)).toBe(9 * 64 * KIB);
  });

  it("halves with each half-life without an exchange, and not while exchanges end", () => {
    const learned = newLearnedSizes();
    const start = 1_000_000;
    checkAge(learned, start);
    learnSizes(learned, 0, 1600, MAX_BYTES);
    expect(isCheckDue(learned, start + HALF_LIFE_MS - 1)).toBe(false);
    expect(isCheckDue(learned, start + HALF_LIFE_MS)).toBe(true);
    checkAge(learned, start + HALF_LIFE_MS);
    expect(learned).toMatchObject({ responseBytes: 800, samples: 1 });
    checkAge(learned, start + 2 * HALF_LIFE_MS);
    expect(learned).toMatchObject({ responseBytes: 400, samples: 0.5 });
    learnSizes(learned, 0, 400, MAX_BYTES);
    checkAge(learned, start + 5 * HALF_LIFE_MS);
    expect(learned.responseBytes).toBe(100);
    checkAge(learned, start + 1e12);
    expect(estimate(standardProfile, "GET", 0, learned)).toBe(1);
  });

  it("does not halve before the host knows the time, and a clock that was set back counts as time passed", () => {
    const learned = newLearnedSizes();
    learnSizes(learned, 0, 1600, MAX_BYTES);
    checkAge(learned, 1e12);
    expect(learned.responseBytes).toBe(800);
    expect(isCheckDue(learned, 1e12 - HALF_LIFE_MS)).toBe(true);
    checkAge(learned, 1e12 - HALF_LIFE_MS);
    expect(learned.responseBytes).toBe(400);
  });

  it("stays a valid cost after any history of sizes", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(size, size)), size, (history, contentLength) => {
        const learned = newLearnedSizes();
        for (const [request, response] of history) learnSizes(learned, request, response, MAX_BYTES);
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
