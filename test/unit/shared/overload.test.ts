/** Detection of overload by event loop lag, on a clock whose timers are late as the test says. */
import { describe, expect, it } from "vitest";
import type { Clock } from "../../../src/shared/clock.js";
import { createOverload, type OverloadLimits } from "../../../src/shared/overload.js";

const off: OverloadLimits = { loopLagMs: 0, heap: 0, memoryMb: 0, files: 0 };

function createLateClock() {
  let now = 0;
  let next = { at: 0, work: () => {} };
  const clock: Clock = {
    now: () => now,
    after(ms, work) {
      next = { at: now + ms, work };
      return () => {
        next.work = () => {};
      };
    },
  };
  return {
    clock,
    /** Runs the next `times` timers, each this late. */
    run(times: number, lateMs: number): void {
      for (let i = 0; i < times; i++) {
        now = next.at + lateMs;
        next.work();
      }
    },
  };
}

function start(limits: Partial<OverloadLimits>) {
  const logged: string[] = [];
  const write = (_fields: object, text: string) => void logged.push(text);
  const { clock, run } = createLateClock();
  const log = { debug: write, info: write, warn: write, error: write };
  const overload = createOverload({ limits: () => ({ ...off, ...limits }), log, clock });
  const shedOf = (calls: number) => Array.from({ length: calls }, overload.sheds).filter(Boolean).length;
  return { overload, run, logged, shedOf };
}

describe("event loop lag", () => {
  it("of a single pause is no overload", () => {
    const { overload, run, shedOf } = start({ loopLagMs: 100 });
    run(10, 0);
    run(1, 5_000);
    run(4, 0);
    expect(overload.isActive()).toBe(false);
    expect(shedOf(10)).toBe(0);
  });

  it("that lasts refuses a growing share, which falls slowly when the lag is well below the limit", () => {
    const { overload, run, shedOf, logged } = start({ loopLagMs: 100 });
    run(7, 150);
    expect(overload.state()).toEqual({ share: expect.closeTo(0.3), causes: ["loop_lag"] });
    expect(shedOf(100)).toBe(30);
    run(20, 150);
    expect(overload.state().share).toBe(1);
    expect(shedOf(100)).toBe(100);
    // Between 80 % of the limit and the limit nothing changes.
    run(20, 90);
    expect(overload.state().share).toBe(1);
    run(10, 10);
    expect(overload.state().share).toBeCloseTo(0.8, 1);
    run(100, 10);
    expect(overload.state()).toEqual({ share: 0, causes: [] });
    expect(shedOf(100)).toBe(0);
    expect(logged).toEqual(["overloaded: refusing new work", "no longer overloaded"]);
  });

  it("is not measured if the limit is 0", () => {
    const { overload, run } = start({});
    run(50, 10_000);
    expect(overload.isActive()).toBe(false);
  });
});

describe("memory and files", () => {
  it.each([
    ["heap", { heap: 1e-6 }],
    ["memory", { memoryMb: 1 }],
    ["files", { files: 1e-6 }],
  ] as const)("above the limit refuse all new work: %s", (cause, limits) => {
    const { overload, run, shedOf } = start(limits);
    run(1, 0);
    expect(overload.state()).toEqual({ share: 1, causes: [cause] });
    expect(shedOf(3)).toBe(3);
    overload.close();
  });
});
