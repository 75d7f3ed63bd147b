/** Degradation: the level follows the store's latency and errors, rises at once, and falls one step at a time. */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import type { AppLimits } from "../../../src/core/app-limits.js";
import {
  type Degradation,
  degradationLevel,
  leaseFactor,
  mayWaitForStore,
  newDegradation,
  observeCall,
  pinLevel,
  reportFactor,
  STORE_ERROR,
  STORE_OK,
  STORE_TIMEOUT,
  withoutStoreAllowance,
} from "../../../src/core/degradation.js";
import { limitedApp } from "../../support/simulation.js";

const NOW = 1750000000000;
const WINDOW_MS = 2000;

interface Calls {
  ok?: number;
  latencyMs?: number;
  errors?: number;
  timeouts?: number;
}

function observe(state: Degradation, now: number, { ok = 0, latencyMs = 1, errors = 0, timeouts = 0 }: Calls): void {
  for (let i = 0; i < ok; i++) observeCall(state, now, STORE_OK, latencyMs);
  for (let i = 0; i < errors; i++) observeCall(state, now, STORE_ERROR, 0);
  for (let i = 0; i < timeouts; i++) observeCall(state, now, STORE_TIMEOUT, 1000);
}

function levelAfter(calls: Calls): number {
  const state = newDegradation();
  observe(state, NOW, calls);
  return degradationLevel(state, NOW);
}

describe("the level", () => {
  test.each([
    ["nothing was asked", {}, 0],
    ["answers take less than 10 ms", { ok: 5, latencyMs: 9.9 }, 0],
    ["answers take 10 ms", { ok: 5, latencyMs: 10 }, 1],
    ["answers take 100 ms", { ok: 5, latencyMs: 100 }, 1],
    ["answers take more than 100 ms", { ok: 5, latencyMs: 100.1 }, 2],
    ["less than 5 % fail", { ok: 191, errors: 9 }, 0],
    ["5 % fail", { ok: 19, errors: 1 }, 2],
    ["50 % fail", { ok: 10, errors: 10 }, 2],
    ["more than 50 % fail", { ok: 9, errors: 10 }, 3],
    ["every call fails", { errors: 1 }, 3],
    ["a single call in a thousand times out", { ok: 999, timeouts: 1 }, 3],
    ["few fail and the others are slow", { ok: 191, errors: 9, latencyMs: 50 }, 1],
  ])("when %s", (_case, calls, level) => {
    expect(levelAfter(calls)).toBe(level);
  });

  it("goes by the mean latency of the calls that succeeded", () => {
    const state = newDegradation();
    observe(state, NOW, { ok: 9, latencyMs: 1 });
    observe(state, NOW + 300, { ok: 1, latencyMs: 91 });
    expect(degradationLevel(state, NOW + 300)).toBe(1);
  });

  it("forgets what is older than the window", () => {
    const state = newDegradation();
    observe(state, NOW, { ok: 19, errors: 1 });
    expect(degradationLevel(newCopy(state), NOW + WINDOW_MS - 200)).toBe(2);
    expect(degradationLevel(newCopy(state), NOW + WINDOW_MS)).toBe(0);
  });

  it("counts a slot of the window anew when its turn comes again", () => {
    const state = newDegradation();
    observe(state, NOW, { errors: 50 });
    observe(state, NOW + WINDOW_MS, { ok: 1 });
    expect(degradationLevel(state, NOW + WINDOW_MS)).toBe(0);
  });

  it("ignores calls with a later time after the clock was set back", () => {
    const state = newDegradation();
    observe(state, NOW, { timeouts: 3 });
    expect(degradationLevel(state, NOW - 3600000)).toBe(0);
  });
});

function newCopy(state: Degradation): Degradation {
  return { ...state, slots: state.slots.map((slot) => ({ ...slot })) };
}

describe("a level", () => {
  it("rises at once, over several steps if it must", () => {
    const state = newDegradation();
    observe(state, NOW, { ok: 100 });
    expect(degradationLevel(state, NOW)).toBe(0);
    observe(state, NOW + 1, { timeouts: 1 });
    expect(degradationLevel(state, NOW + 1)).toBe(3);
  });

  it("falls one step at a time, each after it has been calm for the hold time", () => {
    const state = newDegradation();
    observe(state, NOW, { timeouts: 1 });
    expect(degradationLevel(state, NOW)).toBe(3);
    const calm = NOW + WINDOW_MS;
    const seen: number[] = [];
    for (let ms = 0; ms <= 4000; ms += 500) seen.push(degradationLevel(state, calm + ms));
    expect(seen).toEqual([3, 3, 2, 2, 1, 1, 0, 0, 0]);
  });

  it("begins to count the calm anew when trouble comes back", () => {
    const state = newDegradation();
    observe(state, NOW, { timeouts: 1 });
    degradationLevel(state, NOW);
    const calm = NOW + WINDOW_MS;
    degradationLevel(state, calm);
    observe(state, calm + 900, { timeouts: 1 });
    expect(degradationLevel(state, calm + 900)).toBe(3);
    expect(degradationLevel(state, calm + 900 + WINDOW_MS)).toBe(3);
    expect(degradationLevel(state, calm + 900 + WINDOW_MS + 999)).toBe(3);
    expect(degradationLevel(state, calm + 900 + WINDOW_MS + 1000)).toBe(2);
  });

  it("is not left sooner because the clock stepped back", () => {
    const state = newDegradation();
    observe(state, NOW, { timeouts: 1 });
    degradationLevel(state, NOW);
    degradationLevel(state, NOW + WINDOW_MS);
    expect(degradationLevel(state, NOW - 3600000)).toBe(3);
    expect(degradationLevel(state, NOW - 3600000 + 999)).toBe(3);
    expect(degradationLevel(state, NOW - 3600000 + 1000)).toBe(2);
  });

  it("is always from 0 to 3 and never falls by more than one, whatever happens", () => {
    const event = fc.record({
      pauseMs: fc.integer({ min: -2000, max: 5000 }),
      outcome: fc.constantFrom(STORE_OK, STORE_OK, STORE_OK, STORE_ERROR, STORE_TIMEOUT),
      latencyMs: fc.integer({ min: 0, max: 300 }),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        const state = newDegradation();
        let now = NOW;
        let before = 0;
        for (const { pauseMs, outcome, latencyMs } of events) {
          now += pauseMs;
          observeCall(state, now, outcome, latencyMs);
          const level = degradationLevel(state, now);
          expect([0, 1, 2, 3]).toContain(level);
          expect(before - level).toBeLessThanOrEqual(1);
          before = level;
        }
      }),
    );
  });
});

describe("a pinned level", () => {
  it("applies until it expires, whatever is measured", () => {
    const state = newDegradation();
    pinLevel(state, 1, NOW + 5000);
    observe(state, NOW, { timeouts: 1 });
    expect(degradationLevel(state, NOW)).toBe(1);
    expect(degradationLevel(state, NOW + 4999)).toBe(1);
  });

  it("is followed by the level that was measured meanwhile", () => {
    const state = newDegradation();
    pinLevel(state, 0, NOW + 500);
    observe(state, NOW, { timeouts: 1 });
    expect(degradationLevel(state, NOW + 499)).toBe(0);
    expect(degradationLevel(state, NOW + 500)).toBe(3);
  });

  it("can be pinned again or released", () => {
    const state = newDegradation();
    pinLevel(state, 3, NOW + 5000);
    pinLevel(state, 2, NOW + 5000);
    expect(degradationLevel(state, NOW)).toBe(2);
    pinLevel(state, 0, 0);
    expect(degradationLevel(state, NOW)).toBe(0);
  });
});

describe("a data plane", () => {
  it("holds larger leases, reports less often and stops waiting as the level rises", () => {
    expect([0, 1, 2, 3].map(leaseFactor)).toEqual([1, 2, 5, 5]);
    expect([0, 1, 2, 3].map(reportFactor)).toEqual([1, 2, 2, 2]);
    expect([0, 1, 2, 3].map(mayWaitForStore)).toEqual([true, true, false, false]);
  });

  it("admits without the store what on_store_failure allows", () => {
    const allowance = (app: Partial<AppLimits>, liveNodes = 4, failOpenTokens?: number) => {
      const limits = { ...limitedApp({ id: "app", guaranteed: 10_000, burst: 20_000 }), ...app };
      const { rate, burst } = withoutStoreAllowance(limits, { failOpenTokens, liveNodes });
      return [rate, burst];
    };
    expect(allowance({ onStoreFailure: "open" })).toEqual([10_000, 20_000]);
    expect(allowance({ onStoreFailure: "open" }, 4, 101)).toEqual([101, 101]);
    expect(allowance({ onStoreFailure: "open", failOpenTokens: 7 }, 4, 101)).toEqual([7, 7]);
    expect(allowance({ onStoreFailure: "local" })).toEqual([2500, 5000]);
    expect(allowance({ onStoreFailure: "local" }, 0)).toEqual([10_000, 20_000]);
    expect(allowance({ onStoreFailure: "closed" }, 4, 100)).toEqual([0, 0]);
    expect(allowance({ onStoreFailure: "no such policy" as "open" }, 4, 100)).toEqual([0, 0]);
  });
});
