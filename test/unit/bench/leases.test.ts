/** The bench finds the worst time window, and counts durations. */
import { describe, expect, test } from "vitest";
import { worstWindow } from "../../../bench/leases/worst-window.js";
import { addLatency, meanMs, newLatencies, percentileMs, sumLatencies } from "../../../bench/support/latencies.js";

const at = (...times: number[]) => times.map((time) => ({ from: time, to: time }));

describe("the worst window", () => {
  const limit = { rate: 10, burst: 4 };

  test("is 1 for a full burst at one instant, and for a full burst followed by the rate", () => {
    expect(worstWindow(at(0, 0, 0, 0), limit)).toBe(1);
    expect(worstWindow(at(0, 0, 0, 0, 100, 200, 300), limit)).toBe(1);
  });

  test("is found when it starts in the middle", () => {
    expect(worstWindow(at(0, 1_000, 1_000, 1_000, 1_000, 1_100, 1_100), limit)).toBe(6 / 5);
  });

  test("counts only what was certainly admitted within it", () => {
    const admissions = [
      { from: 0, to: 500 },
      { from: 400, to: 500 },
      { from: 450, to: 600 },
    ];
    // From 400 to 500 one is certain; from 400 to 600 two; from 0 to 600 all three.
    expect(worstWindow(admissions, { rate: 10, burst: 0 })).toBe(1);
  });
});

describe("durations", () => {
  test("of several processes add up, with mean and percentiles", () => {
    const [one, other] = [newLatencies(), newLatencies()];
    for (let i = 0; i < 98; i++) addLatency(one, 0.001);
    for (const ms of [10, 20]) addLatency(other, ms);
    const sum = sumLatencies([one, other]);
    expect(meanMs(sum)).toBeCloseTo(0.301, 3);
    expect(percentileMs(sum, 0.5) / 0.001).toBeCloseTo(1, 1);
    expect(percentileMs(sum, 0.99) / 10).toBeCloseTo(1, 1);
    expect(percentileMs(sum, 1) / 20).toBeCloseTo(1, 1);
  });
});
