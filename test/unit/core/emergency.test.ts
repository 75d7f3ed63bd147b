/** Emergency: what each priority keeps, and when it begins and ends, by the operator's hand or by itself. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MICRO } from "../../../src/core/bucket.js";
import {
  BY_NOBODY,
  BY_OPERATOR,
  BY_USAGE,
  type Emergency,
  emergencyRatio,
  FIRST_STAGE,
  isActive,
  nextEmergency as nextByStrain,
  nextStoppedBursts,
  type StoppedBursts,
  scaled,
  usage,
} from "../../../src/core/emergency.js";

const COOLDOWN = 30000000;
const NOW = 1750000000000000;
const off: Emergency = { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 };
const automatic: Emergency = { active: true, source: BY_USAGE, since: NOW, until: 0, calmSince: 0 };
const operators: Emergency = { active: true, source: BY_OPERATOR, since: NOW, until: NOW + 1000, calmSince: 0 };
/** Bursts have been stopped for long, and L1 cannot pay the own rates. */
const strained = { stopped: { since: 1, calmSince: 0 }, ownShort: true };
const nextEmergency = (before: Emergency, used: number, now: number, cooldown: number) =>
  nextByStrain(before, { used, ...strained }, now, cooldown);

describe("in an emergency", () => {
  it("priority 0 keeps all, 1 half, 2 a tenth, and the others nothing", () => {
    expect([-1, 0, 1, 2, 3, 4, 1000].map(emergencyRatio)).toEqual([1, 1, 0.5, 0.1, 0, 0, 0]);
  });

  it("a limit shrinks to whole micro-tokens", () => {
    expect([1, 0.5, 0.1, 0].map((ratio) => scaled(2000 * MICRO, ratio))).toEqual([2e9, 1e9, 2e8, 0]);
    expect([scaled(15, 0.5), scaled(1, 0.1)]).toEqual([7, 0]);
  });
});

describe("usage", () => {
  it("is the part of the bucket that is gone", () => {
    expect(usage(1000, 1000)).toBe(0);
    expect(usage(50, 1000)).toBe(0.95);
    expect(usage(200, 1000)).toBe(0.8);
    expect(usage(0, 1000)).toBe(1);
  });

  it("stays between 0 and 1 for overdrawn and overfull buckets, and is 1 for one that holds nothing", () => {
    expect(usage(-500, 1000)).toBe(1);
    expect(usage(1500, 1000)).toBe(0);
    expect(usage(0, 0)).toBe(1);
  });
});

describe("the first stage of the automatic emergency", () => {
  const none: StoppedBursts = { since: 0, calmSince: 0 };
  const stopped: StoppedBursts = { since: NOW, calmSince: 0 };

  it("stops bursts at 95 % used and not before", () => {
    expect(nextStoppedBursts(none, 0.9499, NOW, COOLDOWN)).toEqual(none);
    expect(nextStoppedBursts(none, 0.95, NOW, COOLDOWN)).toEqual(stopped);
  });

  it("ends once usage has stayed below 80 % for the cool-down", () => {
    expect(nextStoppedBursts(stopped, 0.8, NOW + 1e12, COOLDOWN)).toEqual(stopped);
    const calm = nextStoppedBursts(stopped, 0.79, NOW + 5, COOLDOWN);
    expect(calm).toEqual({ ...stopped, calmSince: NOW + 5 });
    expect(nextStoppedBursts(calm, 0.8, NOW + 6, COOLDOWN)).toEqual(stopped);
    expect(nextStoppedBursts(calm, 0.5, NOW + 5 + COOLDOWN - 1, COOLDOWN)).toEqual(calm);
    expect(nextStoppedBursts(calm, 0.5, NOW + 5 + COOLDOWN, COOLDOWN)).toEqual(none);
  });

  it("comes first: priorities are cut only if it did not help", () => {
    const at = (stoppedFor: number, ownShort: boolean, used = 1) =>
      nextByStrain(off, { used, stopped: { since: NOW - stoppedFor, calmSince: 0 }, ownShort }, NOW, COOLDOWN).active;
    expect(at(FIRST_STAGE, true)).toBe(true);
    expect(at(FIRST_STAGE - 1, true)).toBe(false);
    expect(at(FIRST_STAGE, false)).toBe(false);
    expect(at(FIRST_STAGE, true, 0.9499)).toBe(false);
    expect(nextByStrain(off, { used: 1, stopped: none, ownShort: true }, NOW, COOLDOWN).active).toBe(false);
  });
});

describe("the automatic emergency", () => {
  it("begins at 95 % used and not before", () => {
    expect(nextEmergency(off, 0.9499, NOW, COOLDOWN)).toEqual(off);
    expect(nextEmergency(off, 0.95, NOW, COOLDOWN)).toEqual(automatic);
  });

  it("goes on between the two lines, however long", () => {
    for (const used of [0.8, 0.85, 0.95, 1])
      expect(nextEmergency(automatic, used, NOW + 1e12, COOLDOWN)).toEqual(automatic);
  });

  it("ends once usage has stayed below 80 % for the cool-down", () => {
    const calm = nextEmergency(automatic, 0.79, NOW + 5, COOLDOWN);
    expect(calm).toEqual({ ...automatic, calmSince: NOW + 5 });
    expect(nextEmergency(calm, 0.5, NOW + 5 + COOLDOWN - 1, COOLDOWN)).toEqual(calm);
    expect(nextEmergency(calm, 0.5, NOW + 5 + COOLDOWN, COOLDOWN)).toEqual(off);
  });

  it("counts the cool-down anew when usage rises above the lower line in between", () => {
    const calm = nextEmergency(automatic, 0.5, NOW, COOLDOWN);
    const again = nextEmergency(calm, 0.8, NOW + COOLDOWN - 1, COOLDOWN);
    expect(again).toEqual(automatic);
    expect(nextEmergency(again, 0.5, NOW + COOLDOWN, COOLDOWN).active).toBe(true);
  });

  it("counts the cool-down anew when the clock steps back", () => {
    const calm: Emergency = { ...automatic, calmSince: NOW };
    expect(nextEmergency(calm, 0.5, NOW - 1000, COOLDOWN)).toEqual({ ...automatic, calmSince: NOW - 1000 });
  });

  it("ends at once without a cool-down", () => {
    expect(nextEmergency(automatic, 0.5, NOW, 0)).toEqual(off);
  });

  it("does not flap while usage swings between the two lines", () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0.8, max: 0.9499, noNaN: true })), fc.boolean(), (usages, begun) => {
        let state = begun ? automatic : off;
        usages.forEach((used, i) => {
          state = nextEmergency(state, used, NOW + i * COOLDOWN, COOLDOWN);
        });
        expect(state.active).toBe(begun);
      }),
    );
  });
});

describe("the operator's emergency", () => {
  it("lasts until it expires, whatever the usage", () => {
    for (const used of [0, 0.5, 1]) expect(nextEmergency(operators, used, NOW + 999, COOLDOWN)).toEqual(operators);
    expect(isActive(operators, NOW + 999)).toBe(true);
    expect(isActive(operators, NOW + 1000)).toBe(false);
    expect(nextEmergency(operators, 0.5, NOW + 1000, COOLDOWN)).toEqual(off);
  });

  it("without expiry lasts until the operator ends it", () => {
    const endless: Emergency = { ...operators, until: 0 };
    expect(isActive(endless, NOW + 1e15)).toBe(true);
    expect(nextEmergency(endless, 0, NOW + 1e15, COOLDOWN)).toEqual(endless);
  });

  it("becomes an automatic one if it expires while usage is high", () => {
    expect(nextEmergency(operators, 0.99, NOW + 2000, COOLDOWN)).toEqual({ ...automatic, since: NOW + 2000 });
  });

  it("is not ended by a clock that steps back", () => {
    expect(isActive(operators, NOW - 1e9)).toBe(true);
  });
});

it("an emergency that is off is not active, whatever its times", () => {
  expect(isActive({ ...off, until: NOW + 1000 }, NOW)).toBe(false);
});
