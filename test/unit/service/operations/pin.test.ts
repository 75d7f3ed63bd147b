/** A pinned level expires, and workers that start later get its remaining time. */
import { expect, it } from "vitest";
import { createPin } from "../../../../src/service/operations/pin.js";
import { createSimulatedClock } from "../../../support/simulated-clock.js";

it("applies until it expires", async () => {
  const clock = createSimulatedClock();
  const sent: [number, number][] = [];
  const pin = createPin({
    send: (level, ms) => sent.push([level, ms]),
    clock,
    wallClock: () => 1_000_000 + clock.now(),
  });
  expect(pin.current()).toBeUndefined();
  pin.set(2, 5_000, "slow", "alice");
  expect(pin.current()).toEqual({ level: 2, untilMs: 1_005_000, leftMs: 5_000, reason: "slow", operator: "alice" });
  await clock.advance(4_999);
  expect(pin.current()).toMatchObject({ level: 2, leftMs: 1, untilMs: 1_005_000 });
  await clock.advance(1);
  expect(pin.current()).toBeUndefined();
  expect(sent).toEqual([[2, 5_000]]);
});

it("is replaced by the next one, and can be unpinned", async () => {
  const clock = createSimulatedClock();
  const sent: [number, number][] = [];
  const pin = createPin({ send: (level, ms) => sent.push([level, ms]), clock });
  pin.set(2, 5_000, "", "");
  pin.set(0, 10, "", "");
  expect(pin.current()).toMatchObject({ level: 0, leftMs: 10 });
  pin.clear();
  expect(pin.current()).toBeUndefined();
  expect(sent).toEqual([
    [2, 5_000],
    [0, 10],
    [0, 0],
  ]);
});
