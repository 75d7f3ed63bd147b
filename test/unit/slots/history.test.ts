/** Thousands of random steps with faults: no pod ever exceeds its limit, and the counts are correct in the end. */
import { describe, expect, it } from "vitest";
import { playHistory } from "./keeper-history.js";

/** SLOT_HISTORY_SEED repeats one history. */
const first = Number(process.env.SLOT_HISTORY_SEED ?? Math.floor(Math.random() * 1_000_000_000));
const HISTORIES = process.env.SLOT_HISTORY_SEED === undefined ? 8 : 1;

describe("a history of connections", () => {
  it.each(Array.from({ length: HISTORIES }, (_, i) => first + i))(
    "never exceeds the limit, and ends with correct counts (seed %i; with an odd seed on two routes)",
    async (seed) => {
      const { admitted, steps } = await playHistory(seed, 300, seed % 2 === 0 ? ["/ws/"] : ["/ws/", "b.example/ws/"]);
      expect(admitted).toBeGreaterThan(0);
      expect(Object.keys(steps).length).toBeGreaterThan(8);
    },
  );
});
