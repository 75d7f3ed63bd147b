/** Emergencies: every coordinator learns each change within a second, and each change is published once. */
import { describe, expect, it } from "vitest";
import { emergencyChannel } from "../../../src/core/keys.js";
import { InvalidArgument } from "../../../src/store/errors.js";
import { createBench, passUntil } from "./cluster-bench.js";

const app = { id: "video", guaranteed: 0, burst: 1000, priority: 1, borrow: true };
const idle = { granted: 0, spent: 0, returned: 0, want: 0 };
const node = (seq: number) => ({ node: "n1", epoch: 1, seq });
const on = (source: string) => expect.objectContaining({ active: true, source });
const stopped = expect.objectContaining({ active: false, burstsStopped: true });
const off = expect.objectContaining({ active: false, burstsStopped: false, source: "none" });

function three(bench: ReturnType<typeof createBench>, cooldownMs = 2000) {
  return ["a", "b", "c"].map((name) => bench.addCoordinator(name, [app], { cooldownMs }));
}

describe("an emergency by usage", () => {
  it("first stops bursts when the cluster is exhausted, ends after the cool-down, and each change is published once", async () => {
    const bench = createBench();
    const all = three(bench);
    await bench.pass(1000);
    expect(bench.published).toEqual([]);
    await bench.quota.grant(node(1), [{ app, ...idle, need: 960 }]);
    await bench.pass(1000);
    // Tokens on leases are not used yet.
    expect(bench.published).toEqual([]);
    await bench.quota.report(node(2), [{ app, granted: 960, spent: 960, returned: 0 }], false);
    await bench.pass(1000);
    expect(bench.published).toEqual([stopped]);
    for (const { received, coordinator } of all) {
      expect(received).toEqual([stopped]);
      expect(coordinator.emergency()).toEqual(stopped);
    }
    await bench.quota.report(node(3), [{ app, granted: 960, spent: 0, returned: 960 }], false);
    await bench.pass(1900);
    expect(bench.published).toHaveLength(1);
    await bench.pass(1000);
    expect(bench.published).toEqual([stopped, off]);
    for (const { received } of all) expect(received).toEqual([stopped, off]);
  });

  it("does not start if it is disabled", async () => {
    const bench = createBench();
    const { received } = bench.addCoordinator("a", [app], { automaticEmergency: false });
    await bench.quota.grant(node(1), [{ app, ...idle, need: 1000 }]);
    await bench.quota.report(node(2), [{ app, granted: 1000, spent: 1000, returned: 0 }], false);
    await bench.pass(1000);
    expect([received, bench.published]).toEqual([[], []]);
  });
});

describe("a command of an operator", () => {
  it("is published at once, received by all, and its expiry is published once", async () => {
    const bench = createBench();
    const all = three(bench);
    await bench.pass(1000);
    const order = all[0]?.coordinator.emergencyOn(5000, "too hot", "sre");
    // No timer runs here: the others learn it from the message, not from a check.
    await new Promise(setImmediate);
    for (const { received } of all) expect(received).toEqual([expect.objectContaining({ active: true, leftMs: 5000 })]);
    expect(await order).toMatchObject({ changed: true });
    const state = { active: true, source: "operator", sinceMs: 1_800_000_001_000, leftMs: 5000, burstsStopped: false };
    expect(bench.published).toEqual([{ ...state, reason: "too hot", operator: "sre" }]);
    await bench.pass(4900);
    expect(bench.published).toHaveLength(1);
    await bench.pass(1000);
    expect(bench.published).toHaveLength(2);
    expect(bench.published[1]).toEqual(off);
    for (const { received } of all) expect(received).toEqual([on("operator"), off]);
  });

  it("ends it at once", async () => {
    const bench = createBench();
    const { coordinator, received } = bench.addCoordinator("a", [app]);
    await coordinator.emergencyOn(0, "too hot", "sre");
    expect(await coordinator.emergencyOff()).toEqual({ changed: true });
    expect(received).toEqual([on("operator"), off]);
    expect(bench.published).toEqual([on("operator"), off]);
  });

  it("that changes the end is a change, passing time is not", async () => {
    const bench = createBench();
    const { coordinator, received } = bench.addCoordinator("a", [app]);
    await coordinator.emergencyOn(60_000, "too hot", "sre");
    await bench.pass(5000);
    expect(received).toHaveLength(1);
    expect(coordinator.emergency().leftMs).toBeGreaterThan(54_000);
    expect(coordinator.emergency().leftMs).toBeLessThanOrEqual(55_000);
    await coordinator.emergencyOn(90_000, "still hot", "sre");
    await coordinator.emergencyOn(0, "hot for good", "sre");
    expect(received.map((state) => state.leftMs)).toEqual([60_000, 90_000, 0]);
  });

  it("whose reply was lost is executed once", async () => {
    const bench = createBench();
    const { coordinator, way } = bench.addCoordinator("a", [app]);
    await bench.pass(100);
    Object.assign(way, { fault: "answer lost", only: "emergency-on" });
    const order = coordinator.emergencyOn(10_000, "too hot", "sre");
    await bench.pass(150);
    way.fault = "none";
    expect(await passUntil(bench, order)).toMatchObject({ changed: true });
    expect(way.calls.filter((call) => call === "emergency-on").length).toBeGreaterThan(1);
    expect(bench.published).toEqual([on("operator")]);
  });

  it("rejects if the store stays unavailable or the duration is invalid", async () => {
    const bench = createBench();
    const { coordinator, way } = bench.addCoordinator("a", [app]);
    await expect(coordinator.emergencyOn(-1, "why", "sre")).rejects.toThrow(InvalidArgument);
    way.fault = "refused";
    await expect(passUntil(bench, coordinator.emergencyOn(0, "why", "sre"))).rejects.toMatchObject({
      kind: "unavailable",
    });
    expect(bench.published).toEqual([]);
  });

  it("that could not be published is published later", async () => {
    const bench = createBench();
    const { coordinator, way, failures } = bench.addCoordinator("a", [app]);
    await bench.pass(100);
    Object.assign(way, { fault: "refused", only: "publish" });
    expect(await coordinator.emergencyOn(0, "too hot", "sre")).toMatchObject({ changed: true });
    await bench.pass(1000);
    expect(failures).toContain("publish");
    expect(bench.published).toEqual([]);
    way.fault = "none";
    await bench.pass(500);
    expect(bench.published).toEqual([on("operator")]);
  });
});

describe("a store that fails for a while", () => {
  it("is checked with increasing delays, one call at a time, and changes are learned within a second", async () => {
    const bench = createBench();
    const { way, received, failures } = bench.addCoordinator("a", [app]);
    await bench.pass(1000);
    way.fault = "refused";
    way.calls.length = 0;
    await bench.pass(10_000);
    const checks = way.calls.filter((call) => call === "emergency-check").length;
    expect(checks).toBeGreaterThan(8);
    expect(checks).toBeLessThan(25);
    expect(failures.filter((doing) => doing === "check")).toHaveLength(checks);
    await bench.quota.emergencyOn(0, "by another", "sre", "op-1");
    way.fault = "none";
    await bench.pass(1000);
    expect(received).toEqual([on("operator")]);
  });

  it("is subscribed to as soon as possible", async () => {
    const bench = createBench();
    const seldom = { checkMs: 3_600_000 };
    const { way, received, failures } = bench.addCoordinator("a", [app], seldom, {
      fault: "refused",
      only: "subscribe",
    });
    await bench.pass(5000);
    expect(failures.filter((doing) => doing === "subscribe").length).toBeGreaterThan(3);
    way.fault = "none";
    await bench.pass(1000);
    const other = bench.addCoordinator("b", [app]);
    await other.coordinator.emergencyOn(0, "too hot", "sre");
    await new Promise(setImmediate);
    expect(received).toEqual([on("operator")]);
  });

  it("that hangs gets no further check before its reply", async () => {
    const bench = createBench();
    const { way } = bench.addCoordinator("a", [app]);
    await bench.pass(1000);
    Object.assign(way, { fault: "dead", only: "emergency-check" });
    way.calls.length = 0;
    await bench.pass(5000);
    expect(way.calls.filter((call) => call === "emergency-check")).toHaveLength(1);
  });
});

describe("a closed coordinator", () => {
  it("sends no calls, receives no messages and rejects commands", async () => {
    const bench = createBench();
    const { coordinator, way, received } = bench.addCoordinator("a", [app]);
    await bench.pass(1000);
    await passUntil(bench, coordinator.close());
    await coordinator.close();
    way.calls.length = 0;
    await bench.quota.emergencyOn(0, "by another", "sre", "op-1");
    await bench.store.publish(emergencyChannel("test"), "{}");
    await bench.pass(120_000);
    expect([way.calls, received]).toEqual([[], []]);
    await expect(coordinator.emergencyOff()).rejects.toMatchObject({ kind: "closed" });
  });
});
