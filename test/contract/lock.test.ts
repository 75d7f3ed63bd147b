/** Locks have one holder at a time and expire if they are not renewed, identically on every store. */
import { expect } from "vitest";
import { lockKey } from "../../src/core/keys.js";
import { type Bench, forEachBackend } from "./backends.js";

const SECOND = 1_000_000;
const TTL = 3000;
const TAKE = 0;
const RELEASE = 1;

const keyOf = (bench: Bench) => lockKey(bench.name, "reconcile");
const take = (bench: Bench, owner: string, ttl = TTL) => bench.store.run("lock", [keyOf(bench)], [owner, ttl, TAKE]);
const release = (bench: Bench, owner: string) => bench.store.run("lock", [keyOf(bench)], [owner, TTL, RELEASE]);

forEachBackend("lock", (it) => {
  it("has one holder; other callers get the remaining time", async (bench) => {
    expect(await take(bench, "a")).toEqual(["ok", 3000]);
    expect(await take(bench, "b")).toEqual(["held", 3000]);
    bench.store.clock.now += 1.2 * SECOND;
    expect(await take(bench, "c")).toEqual(["held", 1800]);
  });

  it("can be renewed only by its holder", async (bench) => {
    await take(bench, "a");
    bench.store.clock.now += 2 * SECOND;
    expect(await take(bench, "b", 60_000)).toEqual(["held", 1000]);
    expect(await take(bench, "a")).toEqual(["ok", 3000]);
    bench.store.clock.now += 2 * SECOND;
    expect(await take(bench, "b")).toEqual(["held", 1000]);
  });

  it("can be taken over when its time-to-live has passed, not before", async (bench) => {
    await take(bench, "a");
    bench.store.clock.now += TTL * 1000 - 1;
    expect(await take(bench, "b")).toEqual(["held", 1]);
    bench.store.clock.now += 1;
    expect(await take(bench, "b")).toEqual(["ok", 3000]);
    expect(await take(bench, "a")).toEqual(["held", 3000]);
  });

  it("can be released only by its holder; a repeated or late release has no effect", async (bench) => {
    await take(bench, "a");
    expect(await release(bench, "b")).toEqual(["held", 3000]);
    expect(await release(bench, "a")).toEqual(["ok", 0]);
    expect(await release(bench, "a")).toEqual(["ok", 0]);
    expect(await take(bench, "b")).toEqual(["ok", 3000]);
    expect(await release(bench, "a")).toEqual(["held", 3000]);
    expect(await take(bench, "c")).toEqual(["held", 3000]);
  });

  it("lasts at most one more time-to-live when the clock steps back", async (bench) => {
    await take(bench, "a");
    bench.store.clock.now -= 3600 * SECOND;
    expect(await take(bench, "b", 60_000)).toEqual(["held", 3000]);
    bench.store.clock.now += TTL * 1000 - 1;
    expect(await take(bench, "b")).toEqual(["held", 1]);
    bench.store.clock.now += 1;
    expect(await take(bench, "b")).toEqual(["ok", 3000]);
  });

  it("is separate for each name and cluster", async (bench) => {
    await take(bench, "a");
    const others = [lockKey(bench.name, "other"), lockKey(`${bench.name}-2`, "reconcile")];
    for (const key of others) expect(await bench.store.run("lock", [key], ["b", TTL, TAKE])).toEqual(["ok", 3000]);
  });

  it("is not changed by invalid arguments, and the reply names them", async (bench) => {
    await take(bench, "a");
    const bad: [(string | number)[], string][] = [
      [["", TTL, TAKE], "owner"],
      [["a b", TTL, TAKE], "owner"],
      [["b", 0, TAKE], "ttl_ms"],
      [["b", -1, TAKE], "ttl_ms"],
      [["b", 0.5, TAKE], "ttl_ms"],
      [["b", 1e308, TAKE], "ttl_ms"],
      [["b", TTL, 2], "release"],
      [["b", TTL, ""], "release"],
      [["b", TTL], "arguments"],
    ];
    for (const [args, field] of bad) {
      expect(await bench.store.run("lock", [keyOf(bench)], args)).toEqual(["invalid_argument", field]);
    }
    expect(await bench.store.run("lock", [], ["a", TTL, TAKE])).toEqual(["invalid_argument", "keys"]);
    expect(await take(bench, "b")).toEqual(["held", 3000]);
  });
});
