import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  bandwidthProfile,
  declaredCost,
  HALF_LIFE_MS,
  MIB,
  standardProfile,
  UNKNOWN_LENGTH,
} from "../../../src/core/cost.js";
import { type Account, newOutcome, PENDING } from "../../../src/engine/account.js";
import { DECIDED_SYNC, decide, decideCost, decideLook } from "../../../src/engine/decide.js";
import { settleExchange } from "../../../src/engine/settle.js";
import { giveUpExpired } from "../../../src/engine/waiters.js";
import { createNodeDriver, limits } from "./node-driver.js";

describe("a request", () => {
  it("waits for the first lease, then is paid from it", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    const first = driver.request("app");
    expect(first.code).toBe(PENDING);
    driver.fill();
    expect(first).toMatchObject({ code: "ok", allowed: true, source: "remote", balance: 10 });
    expect(driver.request("app")).toMatchObject({ code: "ok", source: "local", cost: 1, balance: 9 });
  });

  it("asks for a sync once the balance is below the low-water mark", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    driver.fill();
    const account = driver.account("app");
    const outcome = newOutcome(account, "GET", 0);
    const steps: number[] = [];
    for (let i = 0; i < 10; i++) steps.push(decide(driver.node, outcome, 0));
    // The mark is at 20 % of the target of 10 tokens.
    expect(steps.indexOf(DECIDED_SYNC)).toBe(8);
  });

  it("with an invalid length is refused, also in a dry run", () => {
    const driver = createNodeDriver([limits({ id: "app", dryRun: true })]);
    expect(driver.request("app", -2)).toMatchObject({ code: "invalid_argument", allowed: false, cost: 0 });
  });

  it("learns nothing from methods that are names of object properties", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    const account = driver.account("app");
    for (const method of ["constructor", "__proto__", "toString", "PURGE"]) {
      settleExchange(account, { method, profile: account.limits.profile, cost: 1, code: "ok" }, 0, 65_536);
    }
    expect(Object.keys(account.learned)).toEqual(["other"]);
    const outcome = newOutcome(account, "__proto__", 0);
    decide(driver.node, outcome, 0);
    expect(outcome.cost).toBe(2);
  });

  it("of a dry run is allowed with the code of its refusal", () => {
    const driver = createNodeDriver([limits({ id: "app", dryRun: true })]);
    const waiting = driver.request("app");
    driver.receive(driver.send(), () => ({ code: "quota_exhausted", retryAfterMs: 700 }));
    expect(waiting).toMatchObject({ allowed: true, code: "quota_exhausted", retryAfterMs: 700 });
    expect(driver.request("app")).toMatchObject({ allowed: true, code: "quota_exhausted", source: "cached" });
  });

  it("above the capacity is refused without a retry time, also from the cache", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    const waiting = driver.request("app", 50_000_000);
    driver.receive(driver.send(), () => ({ code: "cost_exceeds_capacity" }));
    expect(waiting).toMatchObject({ code: "cost_exceeds_capacity", retryAfterMs: 0, source: "remote" });
    expect(driver.request("app", 50_000_000)).toMatchObject({ source: "cached", retryAfterMs: 0 });
  });

  it("with a stated cost: invalid, above the burst, and a look that takes nothing", () => {
    const driver = createNodeDriver([limits({ id: "app", burst: 50 })]);
    const account = driver.account("app");
    const outcome = newOutcome(account, "", 0);
    decideCost(driver.node, outcome, Number.NaN);
    expect(outcome).toMatchObject({ code: "invalid_argument", cost: 0 });
    decideCost(driver.node, outcome, 51);
    expect(outcome).toMatchObject({ code: "cost_exceeds_capacity", cost: 50 });
    decideLook(outcome, driver.now());
    expect(outcome).toMatchObject({ code: "ok", cost: 0 });
    driver.request("app");
    driver.receive(driver.send(), () => ({ code: "quota_exhausted", retryAfterMs: 300 }));
    decideLook(outcome, driver.now());
    expect(outcome).toMatchObject({ code: "quota_exhausted", cost: 0, source: "cached", retryAfterMs: 300 });
  });
});

describe("waiters", () => {
  it("are served in order as far as the grant goes", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    const waiting = [1, 2, 3].map(() => driver.request("app"));
    driver.receive(driver.send(), ({ message }) => ({ granted: message.granted + 2 }));
    expect(waiting.map(({ code }) => code)).toEqual(["ok", "ok", PENDING]);
  });

  it("a greedy message that is refused is followed by one for the first waiter only", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    const [first, second] = [driver.request("app", 5 * 65_536), driver.request("app", 65_536)];
    const greedy = driver.send()[0]!;
    expect(greedy).toMatchObject({ greedy: true, firstCost: 6, message: { need: 8 } });
    driver.receive([greedy], () => ({ code: "quota_exhausted", retryAfterMs: 500 }));
    expect([first!.code, second!.code]).toEqual([PENDING, PENDING]);
    // At once, although the store granted less than wanted.
    const careful = driver.send()[0]!;
    expect(careful).toMatchObject({ greedy: false, message: { need: 6 } });
    driver.receive([careful], () => ({ code: "quota_exhausted", retryAfterMs: 500 }));
    expect(first).toMatchObject({ code: "quota_exhausted", source: "remote", retryAfterMs: 500 });
    // The refusal holds for costs of 6 and more.
    expect(second!.code).toBe(PENDING);
  });

  it("are refused after two short replies, with the time that their own rate needs", () => {
    const driver = createNodeDriver([limits({ id: "app", guaranteed: 10 })]);
    driver.account("app").sync.remaining = 0;
    const cheap = [driver.request("app"), driver.request("app")];
    const expensive = driver.request("app", 9 * 65_536);
    const grantOne = () => {
      driver.advance(20);
      driver.receive(driver.send(), ({ message }) => ({ granted: message.granted + 1, remaining: 0 }));
    };
    grantOne();
    expect([cheap[0]!.code, cheap[1]!.code, expensive.code]).toEqual(["ok", PENDING, PENDING]);
    grantOne();
    expect(cheap[1]!.code).toBe("ok");
    expect(expensive).toMatchObject({ code: "quota_exhausted", source: "remote", cost: 10, retryAfterMs: 1000 });
  });

  it("are decided without the store at their deadline", () => {
    const driver = createNodeDriver([limits({ id: "app", onStoreFailure: "open" })]);
    const waiting = driver.request("app");
    driver.advance(999);
    giveUpExpired(driver.node, driver.account("app"), driver.now());
    expect(waiting.code).toBe(PENDING);
    driver.advance(1);
    giveUpExpired(driver.node, driver.account("app"), driver.now());
    expect(waiting).toMatchObject({ code: "ok", source: "without_store" });
  });
});

describe("sizes of earlier exchanges", () => {
  const large = 14 * MIB;
  const settled = (account: Account, method: string, bytes: number) =>
    settleExchange(account, { method, profile: account.limits.profile, cost: 1, code: "ok" }, 0, bytes);

  it("never make a request cost more than a full bucket, in any history", () => {
    const exchange = fc.tuple(fc.constantFrom("GET", "PUT"), fc.nat(2 ** 32), fc.nat(2 ** 32), fc.nat(100_000));
    const request = fc.tuple(fc.constantFrom("GET", "PUT"), fc.constantFrom(UNKNOWN_LENGTH, 0, 65_536, large));
    const profile = fc.constantFrom(standardProfile, bandwidthProfile, { ...standardProfile, maxCost: 15 });
    const capacity = fc.tuple(fc.integer({ min: 5, max: 1000 }), fc.constantFrom(1, 0.5, 0.1, 0));
    fc.assert(
      fc.property(
        profile,
        capacity,
        fc.array(exchange),
        request,
        (priced, [burst, ratio], history, [method, length]) => {
          const driver = createNodeDriver([limits({ id: "app", burst, profile: priced })]);
          const account = driver.account("app");
          account.sync.limit = Math.floor(burst * ratio);
          for (const [verb, received, sent, pauseMs] of history) {
            settleExchange(account, { method: verb, profile: priced, cost: 1, code: "ok" }, received, sent);
            driver.node.clock += pauseMs;
          }
          const outcome = newOutcome(account, method, 0);
          decide(driver.node, outcome, length);
          const declared = declaredCost(priced, method, length);
          const full = account.sync.limit > 0 ? account.sync.limit : burst;
          expect(outcome.cost).toBeGreaterThanOrEqual(declared);
          expect(outcome.cost).toBeLessThanOrEqual(Math.max(declared, full));
        },
      ),
    );
  });

  it("do not lower the cost of a declared body, which is refused above the burst", () => {
    const driver = createNodeDriver([limits({ id: "app", burst: 20 })]);
    settled(driver.account("app"), "GET", large);
    const upload = driver.request("app", large);
    expect(upload.cost).toBe(1 + large / 65_536);
    driver.receive(driver.send(), ({ message }) => ({
      code: message.need > 20 ? "cost_exceeds_capacity" : "ok",
      granted: message.granted,
    }));
    expect(upload).toMatchObject({ code: "cost_exceeds_capacity", retryAfterMs: 0 });
  });

  it("are clamped to what the burst can pay", () => {
    const driver = createNodeDriver([limits({ id: "app", burst: 20 })]);
    for (let i = 0; i < 100; i++) settled(driver.account("app"), "GET", large);
    expect(driver.account("app").learned.GET!.responseBytes).toBeLessThanOrEqual(19 * 65_536);
    for (let i = 0; i < 10; i++) settled(driver.account("app"), "GET", 0);
    expect(driver.request("app").cost).toBeLessThanOrEqual(1 + 7);
  });

  it("count against the capacity of an emergency, not against one that blocks everything", () => {
    const driver = createNodeDriver([limits({ id: "app", burst: 100 })]);
    const account = driver.account("app");
    for (let i = 0; i < 100; i++) settled(account, "GET", large);
    const cost = () => driver.request("app").cost;
    expect(cost()).toBe(100);
    account.sync.limit = 10;
    expect(cost()).toBe(10);
    account.sync.limit = 0;
    expect(cost()).toBe(100);
    account.learned = {};
    expect(cost()).toBe(1);
  });

  it("halve while all requests are refused, at the pace of the node's messages", () => {
    const driver = createNodeDriver([limits({ id: "app", burst: 100 })]);
    for (let i = 0; i < 100; i++) settled(driver.account("app"), "GET", large);
    const costs: number[] = [];
    for (let i = 0; i < 8; i++) {
      driver.send();
      costs.push(driver.request("app").cost);
      driver.advance(HALF_LIFE_MS);
    }
    expect(costs.slice(0, 4)).toEqual([100, 51, 26, 14]);
    expect(costs.at(-1)).toBeLessThanOrEqual(3);
  });
});
