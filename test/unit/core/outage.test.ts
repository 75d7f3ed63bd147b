/** Outages as the store sees them, and the refill that pays for what nodes spent in them. */
import { describe, expect, it } from "vitest";
import { isReportTime, outageAt, paidBySpare, spareRefill } from "../../../src/core/outage.js";

const SECOND = 1_000_000;
const NONE = { from: 0, to: 0 };
const at = (seconds: number) => (1_000 + seconds) * SECOND;

describe("an outage", () => {
  it("is a time of more than 1.5 s without a call", () => {
    expect(outageAt(NONE, at(0), at(1.5))).toBe(NONE);
    expect(outageAt(NONE, at(0), at(1.6))).toEqual({ from: at(0), to: at(1.6) });
  });

  it("is none if the clock was set back", () => {
    expect(outageAt(NONE, at(0), at(-3_600))).toBe(NONE);
  });

  it("continues an earlier one that ended up to 10 s before it", () => {
    const first = { from: at(0), to: at(5) };
    expect(outageAt(first, at(15), at(20))).toEqual({ from: at(0), to: at(20) });
    expect(outageAt(first, at(16), at(20))).toEqual({ from: at(16), to: at(20) });
  });

  it("began at an unknown time if the store has no data; one that follows began when the store was last used", () => {
    const unknown = outageAt(NONE, 0, at(0));
    expect(unknown).toEqual({ from: 0, to: at(0) });
    expect(outageAt(unknown, at(1), at(5))).toEqual({ from: at(1), to: at(5) });
  });

  it("can be reported for 10 s", () => {
    expect([-1, 0, 10, 11].map((seconds) => isReportTime(at(0), at(seconds)))).toEqual([false, true, true, false]);
    expect(isReportTime(NONE.to, at(0))).toBe(false);
  });
});

describe("spare refill", () => {
  const outage = { from: at(0), to: at(10) };

  it("is what the bucket lost in the outage, at most its rate times the outage", () => {
    expect(spareRefill(30 * SECOND, 5 * SECOND, at(-100), outage)).toBe(30 * SECOND);
    expect(spareRefill(500 * SECOND, 5 * SECOND, at(-100), outage)).toBe(50 * SECOND);
    expect(spareRefill(500 * SECOND, 5 * SECOND, at(4), outage)).toBe(30 * SECOND);
    expect(spareRefill(500 * SECOND, 5 * SECOND, at(11), outage)).toBe(0);
  });

  it("pays whole tokens, and no more than were spent", () => {
    expect(paidBySpare(2.9 * SECOND, 5)).toBe(2);
    expect(paidBySpare(9 * SECOND, 5)).toBe(5);
  });
});
