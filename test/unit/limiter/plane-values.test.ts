/** The values of limits that a data plane with its own credentials may use. */
import { expect, it } from "vitest";
import { createPlaneValues } from "../../../src/limiter/limits/plane-values.js";
import { createDrivenClock } from "../../../src/simulate/driven-clock.js";

function start() {
  const clock = createDrivenClock();
  const exceeded: string[] = [];
  const values = createPlaneValues({
    maxValues: () => 2,
    clock,
    exceeded: (plane, most) => exceeded.push(`${plane} ${most}`),
  });
  const used = (plane: string, from: number, to: number) => {
    let count = 0;
    for (let i = from; i < to; i++) if (values.admits(plane, `limit:per-user:${i}`)) count++;
    return count;
  };
  return { values, used, exceeded, clock };
}

it("are ten times as many per minute as a worker remembers; those in use stay usable, and it is reported once", () => {
  const { used, exceeded, clock } = start();
  expect(used("edge-1", 0, 15)).toBe(15);
  expect(used("edge-1", 10, 40)).toBe(10);
  expect(used("edge-1", 0, 20)).toBe(20);
  expect(exceeded).toEqual(["edge-1 20"]);
  clock.moveTo(clock.now() + 60_000);
  expect(used("edge-1", 100, 200)).toBe(20);
  expect(exceeded).toEqual(["edge-1 20", "edge-1 20"]);
});

it("do not include apps and the buckets for further values, and are counted for each plane", () => {
  const { used, values } = start();
  expect(used("edge-1", 0, 100)).toBe(20);
  expect(values.admits("edge-1", "shop")).toBe(true);
  expect(values.admits("edge-1", "limit:per-user:_o")).toBe(true);
  expect(used("edge-2", 0, 100)).toBe(20);
});

it("are bounded for all planes together that share a token, at 10,000 or more", () => {
  expect(start().used("", 0, 20_000)).toBe(10_000);
});
