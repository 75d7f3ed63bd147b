/** Measured decisions stand for all, and at high rates few are measured. */
import { describe, expect, it } from "vitest";
import { adaptSamples, MOST_WEIGHT, newDecisionSamples, sampleWeight } from "../../../src/engine/decision-samples.js";

/** Decisions at an even rate. Returns the weights of those that were measured. */
function run(
  samples = newDecisionSamples(),
  { decisions = 10_000, perSecond = 1_000, fromMs = 1_000_000 } = {},
): number[] {
  const weights: number[] = [];
  for (let i = 0; i < decisions; i++) {
    const weight = sampleWeight(samples);
    if (weight === 0) continue;
    weights.push(weight);
    adaptSamples(samples, fromMs + (i * 1000) / perSecond);
  }
  return weights;
}

const sum = (weights: number[]) => weights.reduce((total, one) => total + one, 0);

describe("measured decisions", () => {
  it.each([1, 10, 100, 1_000, 10_000, 100_000])("stand for all decisions, at %d per second", (perSecond) => {
    const weights = run(undefined, { perSecond });
    expect(sum(weights)).toBeLessThanOrEqual(10_000);
    expect(sum(weights)).toBeGreaterThan(10_000 - MOST_WEIGHT);
  });

  it("are one in 64 at high rates, and all at low ones", () => {
    expect(run(undefined, { perSecond: 100_000 }).length).toBeLessThan(10_000 / MOST_WEIGHT + 10);
    expect(run(undefined, { perSecond: 10, decisions: 100 })).toEqual(new Array(100).fill(1));
  });

  it("become more frequent when the rate falls", () => {
    const samples = newDecisionSamples();
    run(samples, { perSecond: 100_000 });
    const later = run(samples, { perSecond: 10, decisions: 1_000, fromMs: 2_000_000 });
    expect(later.slice(0, 3).every((weight) => weight <= MOST_WEIGHT)).toBe(true);
    expect(new Set(later.slice(3))).toEqual(new Set([1]));
  });
});
