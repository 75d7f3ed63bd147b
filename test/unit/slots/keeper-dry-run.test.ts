/** Connections of an app on a dry run: decided and counted as usual, and never refused or closed. */
import { describe, expect, it } from "vitest";
import type { ConnectionVerdict } from "../../../src/slots/connection-admission.js";
import { createKeeperBench, LEASE_MS, limits } from "./keeper-bench.js";

const PODS = ["pod-1"];
const header = (verdict: ConnectionVerdict) => verdict.headers["X-RateLimit-Dry-Run"];

describe("a connection on a dry run", () => {
  it("has a slot within the limits, and none above them", async () => {
    const bench = createKeeperBench(limits({ maxPerPod: 2 }));
    const a = bench.start("a");
    const verdicts = [];
    for (let i = 0; i < 5; i++) verdicts.push(await a.connectNow(PODS, "trial"));
    expect(verdicts.map(({ allowed }) => allowed)).toEqual([true, true, true, true, true]);
    expect(verdicts.map(header)).toEqual([
      undefined,
      undefined,
      ...Array(3).fill("would-refuse; reason=LIMIT_EXCEEDED"),
    ]);
    expect(await bench.count("pod-1")).toBe(2);
    expect(a.seen.refused).toEqual({});
    await bench.clock.advance(3 * LEASE_MS);
    expect([await bench.count("pod-1"), a.closed]).toEqual([2, []]);
    expect((await a.connectNow(PODS, "chat")).allowed).toBe(false);
  });

  it.each([
    ["the rate of new connections", { ratePerSecond: 0.01, burst: 1, maxPerPod: 10 }, "RATE_LIMITED"],
    ["the limit of the app", { maxPerApp: 1, maxPerPod: 10 }, "APP_LIMIT_EXCEEDED"],
    ["the limit of the route", { maxTotal: 1, maxPerPod: 10 }, "TOTAL_LIMIT_EXCEEDED"],
  ])("is admitted above %s", async (_name, own, reason) => {
    const bench = createKeeperBench(limits(own));
    const a = bench.start("a");
    await a.connectNow(PODS, "trial");
    expect(header(await a.connectNow(PODS, "trial"))).toBe(`would-refuse; reason=${reason}`);
  });

  it("is admitted without the store, whatever the policy", async () => {
    const bench = createKeeperBench(limits({ onStoreFailure: "closed" }));
    const a = bench.start("a");
    a.way.mode = "refusing";
    expect(header(await a.connectNow(PODS, "trial"))).toBe("would-refuse; reason=store_unavailable");
    expect((await a.connectNow(PODS, "chat")).allowed).toBe(false);
  });

  it("stays open if its slot is lost and taken by another", async () => {
    const bench = createKeeperBench(limits({ maxPerPod: 1 }));
    const [a, b] = [bench.start("a"), bench.start("b")];
    await a.connectNow(PODS, "trial");
    a.pause();
    await bench.clock.advance(2 * LEASE_MS);
    expect((await b.connectNow(PODS, "chat")).allowed).toBe(true);
    await a.resume();
    await bench.clock.advance(LEASE_MS);
    expect([a.closed, a.seen.lost, await bench.count("pod-1")]).toEqual([[], 1, 1]);
  });
});
