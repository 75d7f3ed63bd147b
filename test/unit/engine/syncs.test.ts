import { describe, expect, it } from "vitest";
import { defaultLeaseOptions, spentTokens } from "../../../src/core/lease.js";
import { PENDING } from "../../../src/engine/account.js";
import { newEpoch } from "../../../src/engine/epoch.js";
import { leaveNode, refit, setEmergency } from "../../../src/engine/limit-changes.js";
import { urge } from "../../../src/engine/node.js";
import { isMessageDue, planMessage } from "../../../src/engine/plan.js";
import { settleExchange } from "../../../src/engine/settle.js";
import { createNodeDriver, limits } from "./node-driver.js";

const { reportIntervalMs: REPORT_MS, idleMs: IDLE_MS } = defaultLeaseOptions;

describe("the numbers of messages", () => {
  it("are consecutive, and skip one after a message without a reply", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    const next = () => {
      driver.request("app");
      driver.send();
      return driver.node.seq;
    };
    expect([next(), next()]).toEqual([1, 2]);
    driver.fail();
    expect([next(), next()]).toEqual([4, 5]);
  });
});

describe("a closed epoch", () => {
  it("starts a new one at once if the store replied to every message", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    driver.fill();
    driver.request("app");
    driver.advance(REPORT_MS);
    driver.receive(driver.send(), () => undefined, { code: "epoch_closed" });
    expect(driver.node).toMatchObject({ epochClosed: false, seq: 0 });
    expect(driver.node.epoch).toBeGreaterThan(1000);
    expect(driver.account("app").cell.get()).toBe(0);
  });

  it("repeats unanswered messages under the old number first", () => {
    // More accounts than one message can have, so that the unanswered ones need two messages.
    const driver = createNodeDriver(Array.from({ length: 450 }, (_, i) => limits({ id: `app-${i}` })));
    for (const { limits: app } of driver.accounts) driver.request(app.id);
    driver.fill();
    driver.fill();
    for (const { limits: app } of driver.accounts) driver.request(app.id);
    driver.advance(REPORT_MS);
    expect(driver.send()).toHaveLength(400);
    driver.fail();
    driver.advance(2000);
    const again = driver.send();
    driver.receive(again.slice(0, 300), () => undefined, { code: "epoch_closed" });
    expect(driver.node).toMatchObject({ epoch: 1000, epochClosed: true });
    // Only what has no reply is repeated, with the same counters.
    const rest = driver.send();
    expect(rest.map(({ account }) => account)).toEqual(again.slice(300).map(({ account }) => account));
    for (const [i, { message }] of rest.entries()) {
      expect(message.spent).toBe(again[300 + i]!.message.spent);
      expect(message.granted).toBe(again[300 + i]!.message.granted);
    }
    driver.receive(rest, () => undefined, { code: "epoch_closed" });
    expect(driver.node.epochClosed).toBe(false);
    expect(driver.node.epoch).toBeGreaterThan(1000);
    for (const { lease, sync } of driver.accounts) {
      expect(lease.granted).toBe(0);
      expect(sync.unanswered).toBe(false);
    }
  });

  it("drops refunds of the old epoch, which no grant of the new one covers", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    driver.fill();
    driver.advance(200);
    driver.receive(driver.send(), () => undefined, { code: "epoch_closed" });
    const account = driver.account("app");
    settleExchange(account, { method: "GET", profile: account.limits.profile, cost: 5, code: "ok" }, 0, 0);
    driver.request("app");
    driver.request("app", 9 * 65_536);
    const [sent] = driver.send();
    expect(sent!.message).toMatchObject({ granted: 0, spent: 0, returned: 0 });
    expect(driver.account("app").cell.get()).toBe(0);
  });

  it("gets a larger number also if the wall clock stepped back", () => {
    const epoch = newEpoch(0, 2_000_000, 0.5);
    expect(newEpoch(epoch, 1_000_000, 0)).toBe(epoch + 1);
  });

  it("charges in the new epoch what was spent after the last report", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    driver.fill();
    driver.advance(REPORT_MS);
    const planned = driver.send();
    driver.request("app");
    driver.request("app");
    driver.receive(planned, () => undefined, { code: "epoch_closed" });
    const account = driver.account("app");
    expect(spentTokens(account.lease, account.cell)).toBe(2);
    expect(account.cell.get()).toBe(-2);
  });
});

describe("a sync that fails", () => {
  it("is repeated after a back-off that doubles up to a second", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    const pauses: number[] = [];
    for (let i = 0; i < 7; i++) {
      driver.send();
      driver.fail(false);
      pauses.push(driver.node.retryAt - driver.now());
      driver.advance(2000);
    }
    expect(pauses).toEqual([50, 100, 200, 400, 800, 1000, 1000]);
    driver.fill();
    driver.fail(false);
    expect(driver.node.retryAt - driver.now()).toBe(50);
  });

  it.each([
    ["open", 10, { burst: 10, rate: 10 }],
    ["open", undefined, { burst: 200, rate: 100 }],
    ["local", 10, { burst: 100, rate: 50 }],
    ["closed", 10, { burst: 0, rate: 0 }],
  ] as const)("decides without the store: %s, with a cap of %s", (onStoreFailure, failOpenTokens, { burst, rate }) => {
    const driver = createNodeDriver([limits({ id: "app", onStoreFailure })], { failOpenTokens });
    driver.request("app");
    driver.send();
    driver.node.liveNodes = 2;
    driver.fail();
    const admitted = () => {
      let count = 0;
      for (let i = 0; i < 300; i++) if (driver.request("app").allowed) count++;
      return count;
    };
    // The first request was decided without the store, too.
    expect(admitted()).toBe(Math.max(burst - 1, 0));
    driver.advance(1000);
    expect(admitted()).toBe(rate);
    expect(driver.request("app")).toMatchObject({ code: "store_unavailable", retryAfterMs: 1000 });
    const account = driver.account("app");
    expect(spentTokens(account.lease, account.cell)).toBe(burst + rate);
    // All of it is charged with the next message.
    driver.advance(500);
    if (burst > 0) expect(driver.send()[0]!.message.spent).toBe(burst + rate);
  });

  it("reports the same counters again, and grants of a lost reply arrive with the next one", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    const lost = driver.send()[0]!.message;
    driver.fail();
    driver.advance(3000);
    const next = driver.send();
    expect(next[0]!.message).toMatchObject({ granted: lost.granted, spent: lost.spent });
    driver.receive(next, () => ({ granted: 21 }));
    expect(driver.account("app").lease.granted).toBe(21);
  });
});

describe("a message", () => {
  it("has the accounts with waiting requests first, however many others are due", () => {
    const driver = createNodeDriver(Array.from({ length: 450 }, (_, i) => limits({ id: `app-${i}` })));
    for (const account of driver.accounts.slice(0, -1)) urge(driver.node, account);
    driver.request("app-449");
    const planned = driver.send();
    expect(planned).toHaveLength(400);
    expect(planned[0]!.account.limits.id).toBe("app-449");
  });

  it("is repeated without new spending while its reply is missing", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    driver.fill();
    driver.request("app");
    driver.advance(REPORT_MS);
    expect(driver.send()).toHaveLength(1);
    driver.fail();
    expect(driver.send().map(({ message }) => message.spent)).toEqual([2]);
  });

  it("caches the refusal of a descriptor limit for a second at most", () => {
    const driver = createNodeDriver([limits({ id: "app", fillSeconds: 3600 })]);
    driver.request("app");
    driver.receive(driver.send(), () => ({ code: "quota_exhausted", retryAfterMs: 60_000 }));
    expect(driver.account("app").lease.refusedUntil).toBe(driver.now() + 1000);
  });

  it("is sent as a sign of life every second", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    expect(isMessageDue(driver.node, [], driver.now())).toBe(true);
    driver.receive([], () => undefined);
    expect(isMessageDue(driver.node, [], driver.now() + 999)).toBe(false);
    expect(isMessageDue(driver.node, [], driver.now() + 1000)).toBe(true);
    expect(isMessageDue(driver.node, [], driver.now() - 1)).toBe(true);
  });

  it("omits an account that is idle and holds nothing, and returns its tokens before", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    driver.fill();
    driver.advance(REPORT_MS);
    driver.fill();
    driver.advance(IDLE_MS);
    expect(driver.fill()[0]!.message).toMatchObject({ spent: 1, returned: 10, want: 0 });
    driver.advance(100);
    expect(driver.send()).toEqual([]);
    expect(driver.node.active).toEqual([]);
  });
});

describe("an emergency", () => {
  it("cuts leases by priority at once and drops cached refusals", () => {
    const apps = [0, 1, 2, 3].map((priority) => limits({ id: `priority-${priority}`, priority }));
    const driver = createNodeDriver(apps);
    for (const { id } of apps) driver.request(id);
    driver.fill();
    driver.accounts[0]!.lease.refusedUntil = driver.now() + 5000;
    const changed = setEmergency(driver.node, driver.accounts, true, driver.now());
    expect(changed).toHaveLength(4);
    expect(driver.accounts.map(({ cell }) => cell.get())).toEqual([10, 5, 1, 0]);
    expect(driver.accounts[0]!.lease.refusedUntil).toBe(0);
    expect(driver.send().map(({ message }) => message.returned)).toEqual([5, 9, 10]);
  });

  it("that a reply announces does not cut what the same reply grants", () => {
    const driver = createNodeDriver([limits({ id: "app", priority: 3 })]);
    const waiting = driver.request("app");
    driver.receive(driver.send(), () => ({ granted: 1 }), { emergency: true });
    expect(waiting.code).toBe("ok");
    expect(driver.node.emergency).toBe(true);
  });
});

describe("new limits", () => {
  it("return what exceeds them, and a refusal under the old ones does not count", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    driver.fill();
    const account = driver.account("app");
    account.limits = limits({ id: "app", burst: 5 });
    driver.node.options = { ...driver.node.options, timeoutMs: 300 };
    refit(driver.node, account, driver.now());
    expect(account.cell.get()).toBe(5);
    expect(account.lease.returned).toBe(5);
    for (let i = 0; i < 5; i++) driver.request("app");
    const waiting = driver.request("app");
    const planned = driver.send();
    driver.node.options = { ...driver.node.options };
    driver.receive(planned, () => ({ code: "quota_exhausted", retryAfterMs: 10_000 }));
    expect(waiting.code).toBe(PENDING);
    expect(account.waiters[0]!.deadline).toBe(driver.now() + 300);
  });

  it("an account that leaves returns its tokens and departs when everything is reported", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    driver.fill();
    leaveNode(driver.node, driver.account("app"));
    expect(driver.send()[0]!.message).toMatchObject({ returned: 10, need: 0, want: 0 });
    expect(driver.node.departed).toEqual([]);
    driver.advance(100);
    driver.receive(driver.send(), () => ({}));
    driver.advance(100);
    planMessage(driver.node, driver.now());
    expect(driver.node.departed).toEqual([driver.account("app")]);
  });

  it("a descriptor limit sends a final report until it is answered, then its counters restart", () => {
    const driver = createNodeDriver([limits({ id: "limit", fillSeconds: 1, guaranteed: 50, burst: 50 })]);
    driver.request("limit");
    driver.fill();
    const account = driver.account("limit");
    leaveNode(driver.node, account);
    const report = driver.send()[0]!.message;
    expect(account.finalReport).toBe(report);
    driver.fail();
    driver.advance(2000);
    const again = driver.send();
    expect(again[0]!.message).toBe(report);
    driver.receive(again, () => ({}));
    expect(account).toMatchObject({ finalReport: undefined, lease: { granted: 0, returned: 0 } });
    expect(account.sync).toMatchObject({ reportedSpent: 0, reportedReturned: 0 });
    driver.advance(100);
    planMessage(driver.node, driver.now());
    expect(driver.node.departed).toEqual([account]);
  });
});

describe("the rate in a reply", () => {
  it("of a service with a newer configuration is shown from then on", () => {
    const driver = createNodeDriver([limits({ id: "app", guaranteed: 100 / 60, burst: 100 })]);
    const own = driver.account("app").sync.rate;
    const answer = (rate?: number) => {
      driver.request("app");
      driver.receive(driver.send(), ({ message }) => ({
        granted: message.granted + message.want,
        remaining: 50,
        rate,
      }));
      driver.advance(1_000);
      return driver.account("app").sync.rate;
    };
    expect(answer()).toBe(own);
    // Rounded to whole micro-tokens it is the same rate.
    expect(answer(1.666_667)).toBe(own);
    driver.account("app").cell.add(-driver.account("app").cell.get());
    expect(answer(5)).toBe(5);
  });
});
