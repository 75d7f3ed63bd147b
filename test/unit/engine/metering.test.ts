/** When a transfer of unknown length needs tokens, without a limiter. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { COST_EXCEEDS_CAPACITY, QUOTA_EXHAUSTED } from "../../../src/core/codes.js";
import { bandwidthProfile, iopsProfile, MAX_BYTES, standardProfile } from "../../../src/core/cost.js";
import { dueAt, dueTokens, newMetering, nextTake, pauseMs, REFUSED } from "../../../src/engine/metering.js";

const profiles = fc.constantFrom(standardProfile, iopsProfile, bandwidthProfile, { ...standardProfile, maxCost: 30 });

describe("the size at which tokens are due", () => {
  it("is the first one for which tokens have to be taken", () => {
    fc.assert(
      fc.property(profiles, fc.nat(60), fc.nat(60), fc.constantFrom("GET", "PUT"), (profile, cost, taken, method) => {
        const exchange = { method, profile, cost };
        const due = (bytes: number) => dueTokens({ ...newMetering(bytes), taken }, exchange);
        const at = dueAt({ ...newMetering(0), taken }, exchange);
        if (at === MAX_BYTES) {
          expect(due(1e15)).toBeLessThanOrEqual(0);
          return;
        }
        expect(due(at)).toBeGreaterThan(0);
        // What was paid may be less than the base cost.
        if (due(0) <= 0) expect(due(at - 1)).toBeLessThanOrEqual(0);
      }),
    );
  });
});

describe("tokens that are due", () => {
  it("are taken in parts of a quarter of the bucket, at least one", () => {
    expect([nextTake(3, 20), nextTake(30, 20), nextTake(30, 1), nextTake(30, 0)]).toEqual([3, 5, 1, 1]);
  });

  const ask = (policy: "cut" | "delay", code: string, retryAfterMs: number, now: number) =>
    pauseMs({ ...newMetering(0), progressMs: 1_000 }, policy, { code, retryAfterMs }, { now, patienceMs: 500 });

  it.each([
    ["with `cut` never", "cut", 100, 1_000, REFUSED],
    ["after Retry-After", "delay", 100, 1_000, 100],
    ["not at once", "delay", 0, 1_000, 10],
    ["when patience ends", "delay", 900, 1_200, 300],
    ["not after patience has ended", "delay", 100, 1_500, REFUSED],
  ] as const)("are asked for again %s", (_when, policy, retryAfterMs, now, expected) => {
    expect(ask(policy, QUOTA_EXHAUSTED, retryAfterMs, now)).toBe(expected);
  });

  it("are asked for again soon if the capacity was reduced meanwhile", () => {
    expect(ask("delay", COST_EXCEEDS_CAPACITY, 400, 1_000)).toBe(10);
  });
});
