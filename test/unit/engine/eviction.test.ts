import { describe, expect, it } from "vitest";
import { evictionOf } from "../../../src/engine/eviction.js";

const MINUTE_MS = 60_000;
const use = { count: 0, most: 1_000, hadNoRoom: false, oldestFirst: false };

describe("values of limits", () => {
  it("stay for five minutes without use, or for one if half of the maximum is reached", () => {
    expect(evictionOf({ ...use, count: 499 }).idleMs).toBe(5 * MINUTE_MS);
    expect(evictionOf({ ...use, count: 500 }).idleMs).toBe(MINUTE_MS);
  });

  it("above 80 % of the maximum are released to that share, those of the last second excepted", () => {
    expect(evictionOf({ ...use, count: 800, oldestFirst: true }).surplus).toBe(0);
    expect(evictionOf({ ...use, count: 850, oldestFirst: true })).toMatchObject({ surplus: 50, surplusIdleMs: 1_000 });
  });

  it("stay a minute above 80 % if the host does not know the oldest", () => {
    expect(evictionOf({ ...use, count: 850 })).toMatchObject({ surplus: 50, surplusIdleMs: MINUTE_MS });
  });

  it("make room for others: half of the maximum is released if there was none", () => {
    expect(evictionOf({ ...use, count: 1_000, hadNoRoom: true })).toMatchObject({ surplus: 500, surplusIdleMs: 1_000 });
  });
});
