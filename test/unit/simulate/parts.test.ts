/** The simulated clock, the sorting of requests, and the timeline. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createDrivenClock } from "../../../src/simulate/driven-clock.js";
import { createInOrder } from "../../../src/simulate/in-order.js";
import type { LoggedRequest } from "../../../src/simulate/logged-request.js";
import { createTimeline, STEPS } from "../../../src/simulate/tally.js";

describe("the driven clock", () => {
  it("runs timers in the order of time, then of creation, except cancelled ones", () => {
    const clock = createDrivenClock();
    const ran: string[] = [];
    const note = (name: string) => () => ran.push(`${name}@${clock.now()}`);
    clock.after(20, note("c"));
    clock.after(10, note("a"));
    const forget = clock.after(10, note("never"));
    clock.after(10, note("b"));
    forget();
    while (clock.nextAt() <= 20) clock.runNext();
    expect(ran).toEqual(["a@10", "b@10", "c@20"]);
    expect(clock.nextAt()).toBe(Number.POSITIVE_INFINITY);
    clock.moveTo(15);
    expect(clock.now()).toBe(20);
  });

  it("delays all timers by a sleep", () => {
    const clock = createDrivenClock();
    clock.after(10, () => undefined);
    clock.sleep(1_000);
    expect([clock.now(), clock.nextAt()]).toEqual([1_000, 1_010]);
  });
});

const request = (at: number, order: number, coarse = false): LoggedRequest => ({
  ...{ at, order, coarse, app: "a", method: "GET", requestBytes: 0, responseBytes: 0, durationMs: 0 },
});

describe("requests out of order", () => {
  it("are sorted if none exceeds the tolerance", () => {
    const disorder = fc.array(fc.record({ at: fc.nat(10_000), delay: fc.nat(500) }), { maxLength: 200 });
    fc.assert(
      fc.property(disorder, (lines) => {
        const written = lines.map((one, order) => ({ ...one, order })).sort((a, b) => a.at + a.delay - b.at - b.delay);
        const ordered = createInOrder(500, 1_000);
        const out: LoggedRequest[] = [];
        const take = (all: boolean) => out.push(...ordered.take(all));
        for (const { at, order } of written) {
          ordered.add(request(at, order));
          take(false);
        }
        take(true);
        expect(ordered.late()).toBe(0);
        expect(out.map(({ at }) => at)).toEqual(lines.map(({ at }) => at).sort((a, b) => a - b));
      }),
    );
  });

  it("are buffered up to a maximum number", () => {
    const ordered = createInOrder(1e9, 3);
    const out: number[] = [];
    for (let at = 1; at <= 10; at++) {
      ordered.add(request(at, at));
      out.push(...ordered.take(false).map((one) => one.at));
    }
    expect(out).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  it("with whole seconds are spread over their second, in the order of the log; late ones get its end", () => {
    const ordered = createInOrder(0, 100);
    const out: number[] = [];
    const take = (all: boolean) => out.push(...ordered.take(all).map((one) => one.at));
    for (let i = 0; i < 4; i++) ordered.add(request(1_000, i, true));
    take(false);
    expect(out).toEqual([]);
    ordered.add(request(2_000, 4, true));
    take(false);
    expect(out).toEqual([1_000, 1_250, 1_500, 1_750]);
    ordered.add(request(1_000, 5, true));
    take(true);
    expect(out.slice(4)).toEqual([1_750, 2_000]);
    expect(ordered.late()).toBe(1);
  });
});

describe("the timeline", () => {
  it("has a fixed number of steps, which grow without losing counts", () => {
    const timeline = createTimeline(5_000);
    const series = timeline.series();
    const count = (ms: number) => {
      const step = timeline.stepAt(ms);
      series.requests[step]!++;
    };
    for (let second = 0; second < 1_000; second++) count(5_000 + second * 1_000);
    expect(timeline.stepMs()).toBe(32_000);
    expect(series.requests).toHaveLength(STEPS);
    expect(series.requests.reduce((sum, one) => sum + one, 0)).toBe(1_000);
    expect([...series.requests.subarray(0, 32)]).toEqual([...Array(31).fill(32), 8]);
    count(0);
    expect(series.requests[0]).toBe(33);
  });
});
