/** The token bucket: to the token and to the millisecond, whatever the clock does. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type Bucket,
  charge,
  giveBack,
  MAX_TOKENS,
  MAX_WAIT_MS,
  MICRO,
  refill,
  waitMs,
  wholeTokens,
} from "../../../src/core/bucket.js";

const SECOND = 1000000;

/** A bucket of whole tokens and whole tokens per second, as limits are configured. */
function bucketOf(level: { tokens: number; debt?: number }, capacity: number, rate: number, reserve: number): Bucket {
  return {
    tokens: level.tokens * MICRO,
    debt: (level.debt ?? 0) * MICRO,
    capacity: capacity * MICRO,
    held: 0,
    rate: rate * MICRO,
    reserve: reserve * MICRO,
  };
}

const wholeTokensUpTo = (max: number) => fc.integer({ min: 0, max });
const anyRate = fc.oneof(fc.integer({ min: 1, max: 2000 }), fc.integer({ min: 1, max: MAX_TOKENS }));
/** Any state that configured limits can lead to: also overdrawn, also in debt, at any micro-token. */
const anyBucket: fc.Arbitrary<Bucket> = fc
  .tuple(wholeTokensUpTo(MAX_TOKENS), anyRate, fc.oneof(fc.constant(0), wholeTokensUpTo(MAX_TOKENS)))
  .chain(([capacity, rate, reserve]) =>
    fc.record({
      debt: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: Math.floor(capacity * 0.6) * MICRO })),
      capacity: fc.constant(capacity * MICRO),
      held: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: capacity * MICRO })),
      rate: fc.constant(rate * MICRO),
      reserve: fc.constant(reserve * MICRO),
    }),
  )
  .chain((bucket) =>
    fc.integer({ min: -bucket.capacity, max: bucket.capacity - bucket.held }).map((tokens) => ({ ...bucket, tokens })),
  );
/** Up to an hour, in microseconds. */
const elapsed = fc.oneof(fc.integer({ min: 0, max: 5 * SECOND }), fc.integer({ min: 0, max: 3600 * SECOND }));

function refilled(bucket: Bucket, micros: number): Bucket {
  const copy = { ...bucket };
  refill(copy, micros);
  return copy;
}

describe("refill", () => {
  it("restores the reserve, then repays the debt, then fills the burst", () => {
    const empty = bucketOf({ tokens: 0, debt: 300 }, 2000, 1000, 1000);
    const seen = [0, 0.5, 1, 1.1, 1.3, 1.301, 2, 2.3, 9].map((seconds) => {
      const { tokens, debt } = refilled(empty, seconds * SECOND);
      return [seconds, tokens / MICRO, debt / MICRO];
    });
    expect(seen).toEqual([
      [0, 0, 300],
      [0.5, 500, 300],
      [1, 1000, 300],
      [1.1, 1000, 200],
      [1.3, 1000, 0],
      [1.301, 1001, 0],
      [2, 1700, 0],
      [2.3, 2000, 0],
      [9, 2000, 0],
    ]);
  });

  it("repays debt from a full bucket, too", () => {
    const full = bucketOf({ tokens: 2000, debt: 300 }, 2000, 1000, 1000);
    expect(refilled(full, 0.1 * SECOND)).toEqual(bucketOf({ tokens: 2000, debt: 200 }, 2000, 1000, 1000));
  });

  it("pays off what is overdrawn up to the reserve before the debt", () => {
    const overdrawn = bucketOf({ tokens: -500, debt: 300 }, 2000, 1000, 0);
    expect(refilled(overdrawn, 0.5 * SECOND)).toEqual(bucketOf({ tokens: 0, debt: 300 }, 2000, 1000, 0));
  });

  it("gives the same in two steps as in one, exactly", () => {
    fc.assert(
      fc.property(anyBucket, elapsed, elapsed, (bucket, first, second) => {
        expect(refilled(refilled(bucket, first), second)).toEqual(refilled(bucket, first + second));
      }),
    );
  });

  it("keeps whole numbers: nothing is lost to rounding", () => {
    fc.assert(
      fc.property(anyBucket, elapsed, (bucket, micros) => {
        const { tokens, debt } = refilled(bucket, micros);
        expect(Number.isSafeInteger(tokens) && Number.isSafeInteger(debt)).toBe(true);
      }),
    );
  });

  it("adds exactly rate × time, as tokens or as paid debt, as long as the bucket has room", () => {
    fc.assert(
      fc.property(anyBucket, fc.integer({ min: 0, max: 2 * SECOND }), (bucket, micros) => {
        const { tokens, debt } = refilled(bucket, micros);
        const gained = tokens - bucket.tokens + (bucket.debt - debt);
        const all = micros * (bucket.rate / MICRO);
        if (tokens < bucket.capacity - bucket.held) expect(gained).toBe(all);
        else expect(gained).toBeLessThanOrEqual(all);
      }),
    );
  });

  it("never exceeds the capacity together with what nodes hold, however far the clock jumps ahead", () => {
    fc.assert(
      fc.property(anyBucket, fc.maxSafeNat(), (bucket, jump) => {
        const later = refilled(bucket, jump);
        expect(later.tokens + bucket.held).toBeLessThanOrEqual(bucket.capacity);
        expect(later.debt).toBeGreaterThanOrEqual(0);
      }),
    );
    const long = refilled(bucketOf({ tokens: 0, debt: 5 }, 7, 1, 1), 1e6 * SECOND);
    expect(long).toEqual(bucketOf({ tokens: 7, debt: 0 }, 7, 1, 1));
  });

  it("returns what did not fit, but not what a lowered capacity cuts", () => {
    expect(refill(bucketOf({ tokens: 8 }, 10, 1, 0), 5 * SECOND)).toBe(3 * MICRO);
    expect(refill(bucketOf({ tokens: 8, debt: 2 }, 10, 1, 0), 5 * SECOND)).toBe(1 * MICRO);
    expect(refill(bucketOf({ tokens: 900 }, 100, 1, 1), 5 * SECOND)).toBe(5 * MICRO);
    expect(refill(bucketOf({ tokens: 900 }, 100, 1, 1), -5)).toBe(0);
  });

  it("refills nothing when the clock steps back", () => {
    fc.assert(
      fc.property(anyBucket, elapsed, (bucket, back) => {
        expect(refilled(bucket, 0 - back)).toEqual(bucket);
      }),
    );
  });

  it("cuts a level that is above a capacity made smaller", () => {
    expect(refilled(bucketOf({ tokens: 900 }, 100, 1, 1), 0).tokens).toBe(100 * MICRO);
    expect(refilled(bucketOf({ tokens: 900 }, 100, 1, 1), -5).tokens).toBe(100 * MICRO);
  });

  it("moves by millionths of a token, for rates that are not whole", () => {
    expect(refilled(bucketOf({ tokens: 0 }, 10, 0.5, 0), 3 * SECOND).tokens).toBe(1500000);
  });
});

describe("the wait", () => {
  it("is exactly enough: not a token short after it, and too short two milliseconds earlier", () => {
    fc.assert(
      fc.property(anyBucket, fc.nat(), (bucket, pick) => {
        const tokens = pick % (wholeTokens(bucket.capacity - bucket.held) + 1);
        const wait = waitMs(bucket, tokens);
        fc.pre(wait < MAX_WAIT_MS);
        expect(refilled(bucket, wait * 1000).tokens).toBeGreaterThanOrEqual(tokens * MICRO);
        if (wait >= 2) expect(refilled(bucket, (wait - 2) * 1000).tokens).toBeLessThan(tokens * MICRO);
      }),
      { numRuns: 1000 },
    );
  });

  it("is nothing for tokens that are there", () => {
    expect(waitMs(bucketOf({ tokens: 5, debt: 9 }, 10, 1, 1), 5)).toBe(0);
  });

  it("counts the debt only above the reserve", () => {
    const bucket = bucketOf({ tokens: 0, debt: 300 }, 2000, 1000, 1000);
    expect([waitMs(bucket, 1000), waitMs(bucket, 1001)]).toEqual([1000, 1301]);
  });

  it("is a day at most, also where nothing is ever refilled", () => {
    expect(waitMs(bucketOf({ tokens: 0 }, 10, 0, 0), 1)).toBe(MAX_WAIT_MS);
    expect(waitMs({ ...bucketOf({ tokens: 0 }, 10, 0, 0), rate: 1 }, 1)).toBe(MAX_WAIT_MS);
    expect(waitMs(bucketOf({ tokens: -MAX_TOKENS }, MAX_TOKENS, 1, 0), 5)).toBe(MAX_WAIT_MS);
  });
});

describe("a charge", () => {
  it("takes what was spent, far below zero if it must", () => {
    const bucket = bucketOf({ tokens: 30 }, 100, 10, 10);
    charge(bucket, 50);
    expect(bucket.tokens).toBe(-20 * MICRO);
    charge(bucket, 500);
    expect(bucket.tokens).toBe(-520 * MICRO);
  });

  it("never raises the level, and stays where numbers are exact", () => {
    fc.assert(
      fc.property(anyBucket, fc.nat(), (bucket, tokens) => {
        const before = bucket.tokens;
        charge(bucket, tokens);
        expect(bucket.tokens).toBeLessThanOrEqual(before);
        expect(Object.is(bucket.tokens, -0)).toBe(false);
        charge(bucket, Number.MAX_SAFE_INTEGER);
        expect(bucket.tokens).toBe(-MAX_TOKENS * MICRO);
      }),
    );
  });
});

describe("what is given back", () => {
  it("fills the bucket up to its capacity; the rest is lost", () => {
    const bucket = bucketOf({ tokens: -20 }, 100, 10, 10);
    giveBack(bucket, 50);
    expect(bucket.tokens).toBe(30 * MICRO);
    giveBack(bucket, 500);
    expect(bucket.tokens).toBe(100 * MICRO);
  });
});

it("only whole tokens leave a bucket, and none leave an overdrawn one", () => {
  expect([2999999, 3000000, 0, -1, -5000000].map(wholeTokens)).toEqual([2, 3, 0, 0, 0]);
});
