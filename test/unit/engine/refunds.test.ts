/** Settlement: surcharges reduce the balance; refunds go to the balance only while the store counts the tokens as held. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { standardProfile } from "../../../src/core/cost.js";
import { spentTokens } from "../../../src/core/lease.js";
import { recallTokens } from "../../../src/engine/reply.js";
import { refund, settleExchange } from "../../../src/engine/settle.js";
import { createNodeDriver, limits } from "./node-driver.js";

const settled = (cost: number, bytes: number, code = "ok") => ({
  exchange: { method: "GET", profile: standardProfile, cost, code },
  bytes,
});

/** A node that was granted 11 tokens for its first request and has sent no message since. */
function granted() {
  const driver = createNodeDriver([limits({ id: "app" })]);
  driver.request("app");
  driver.fill();
  const account = driver.account("app");
  const settle = (cost: number, bytes: number, code?: string) =>
    settleExchange(account, settled(cost, bytes, code).exchange, 0, bytes);
  return { driver, account, settle, balance: () => account.cell.get(), refunds: () => account.refunds.get() };
}

describe("an exchange that has ended", () => {
  it("is charged for what it cost more than its estimate, also beyond the lease", () => {
    const { settle, balance } = granted();
    expect(settle(1, 65_536)).toBe(1);
    expect(balance()).toBe(9);
    expect(settle(1, 20 * 65_536)).toBe(20);
    expect(balance()).toBe(-11);
  });

  it("is not settled if nothing was taken for it", () => {
    const { settle, balance, refunds } = granted();
    expect(settle(5, 0, "quota_exhausted")).toBe(0);
    expect([balance(), refunds()]).toEqual([10, 0]);
  });

  it("ends a cached refusal if tokens are refunded, and only then", () => {
    const { account, settle, driver } = granted();
    account.lease.refusedUntil = driver.now() + 1000;
    settle(1, 65_536);
    settle(1, 0);
    expect(account.lease.refusedUntil).toBe(driver.now() + 1000);
    settle(2, 0);
    expect(account.lease.refusedUntil).toBe(0);
  });
});

describe("a refund", () => {
  it("of tokens that were not reported yet is spendable at once", () => {
    const { driver, settle, balance, refunds } = granted();
    driver.request("app", 4 * 65_536);
    expect(balance()).toBe(5);
    expect(settle(5, 0)).toBe(-4);
    expect([balance(), refunds()]).toEqual([9, 0]);
  });

  it("of tokens in a message that was sent is returned to the bucket, also while the reply is missing", () => {
    const { driver, settle, balance, refunds } = granted();
    driver.request("app", 4 * 65_536);
    driver.advance(30_000);
    const [sent] = driver.send();
    expect(sent!.message.spent).toBe(6);
    driver.request("app");
    const before = balance();
    // One of four tokens was spent after the message.
    settle(5, 0);
    expect([balance() - before, refunds()]).toEqual([1, 3]);
    driver.fail();
    driver.advance(2000);
    expect(driver.send()[0]!.message).toMatchObject({ spent: 6 - 3, returned: sent!.message.returned + 3 });
    expect(refunds()).toBe(0);
  });

  it("is included in the next message, at the latest after the report interval", () => {
    const { driver, account, settle } = granted();
    driver.request("app", 4 * 65_536);
    driver.advance(30_000);
    driver.fill();
    settle(5, 0);
    driver.advance(29_000);
    expect(driver.send()).toEqual([]);
    driver.advance(1000);
    const [sent] = driver.send();
    expect(sent!.message).toMatchObject({ spent: 2, returned: 4 });
    expect(account.refunds.get()).toBe(0);
  });

  it("is no more than was spent", () => {
    const { account, balance, refunds } = granted();
    refund(account, 50);
    expect([balance(), refunds()]).toEqual([11, 0]);
    refund(account, 50);
    expect([balance(), refunds()]).toEqual([11, 0]);
  });

  it("always goes back to the bucket if workers share the balance", () => {
    const { account, settle, driver, balance, refunds } = granted();
    account.syncCell = { add: account.cell.add, get: account.cell.get };
    driver.request("app", 4 * 65_536);
    settle(5, 0);
    expect([balance(), refunds()]).toEqual([5, 4]);
  });

  it("of spending without a grant is returned only when a reply has counted it as granted", () => {
    const driver = createNodeDriver([limits({ id: "app", onStoreFailure: "open" })]);
    const account = driver.account("app");
    account.cell.add(-20);
    driver.advance(30_000);
    recallTokens(driver.node, account);
    expect(driver.send()[0]!.message).toMatchObject({ granted: 0, spent: 20, returned: 0 });
    driver.fail();
    refund(account, 5);
    driver.advance(30_000);
    const again = driver.send();
    expect(again[0]!.message).toMatchObject({ granted: 0, spent: 20, returned: 0 });
    driver.receive(again, () => ({ granted: 20 }));
    recallTokens(driver.node, account);
    driver.advance(30_000);
    expect(driver.send()[0]!.message).toMatchObject({ granted: 20, spent: 15, returned: 5 });
    expect(account.refunds.get()).toBe(0);
  });

  it("of spending without a grant that was not reported reduces it, also if workers share the balance", () => {
    const driver = createNodeDriver([limits({ id: "app", onStoreFailure: "open" })]);
    const account = driver.account("app");
    account.syncCell = { add: account.cell.add, get: account.cell.get };
    account.cell.add(-20);
    refund(account, 5);
    driver.advance(30_000);
    recallTokens(driver.node, account);
    expect(driver.send()[0]!.message).toMatchObject({ granted: 0, spent: 15, returned: 0 });
    expect(account.refunds.get()).toBe(0);
  });

  it.each([
    ["a plain balance", false],
    ["a balance that workers share", true],
  ])("never makes the node hold or return more than it was granted, in any history, with %s", (_what, shares) => {
    const step = fc.oneof(
      fc.record({ take: fc.nat(9) }),
      fc.record({ overdraw: fc.nat(30) }),
      fc.record({ refund: fc.integer({ min: 1, max: 12 }) }),
      fc.constantFrom({ send: "answered" }, { send: "lost" }, { send: "unknown" }, { send: "closed" }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const { driver, account } = granted();
        if (shares) account.syncCell = { add: account.cell.add, get: account.cell.get };
        // What the store knows: the counters of the last message that arrived. It charges what was spent without a grant.
        let known = { granted: 11, spent: 0, returned: 0 };
        const held = () => known.granted - known.spent - known.returned;
        for (const one of steps) {
          if ("take" in one) account.cell.take(one.take);
          else if ("overdraw" in one) account.cell.add(-one.overdraw);
          else if ("refund" in one) refund(account, one.refund);
          else {
            recallTokens(driver.node, account);
            const planned = driver.send();
            for (const { message } of planned) {
              expect(message.spent).toBeGreaterThanOrEqual(0);
              expect(message.returned).toBeLessThanOrEqual(message.granted);
              if (one.send === "lost") continue;
              known = {
                ...message,
                granted: Math.max(known.granted, message.granted, message.spent + message.returned),
              };
            }
            if (one.send === "answered") driver.receive(planned, () => ({ granted: known.granted }));
            else if (one.send === "closed") {
              driver.receive(planned, () => undefined, { code: "epoch_closed" });
              if (!driver.node.epochClosed) known = { granted: 0, spent: 0, returned: 0 };
            } else driver.fail();
            driver.advance(1500);
          }
          expect(account.cell.get()).toBeLessThanOrEqual(Math.max(held(), 0));
          expect(spentTokens(account.lease, account.cell)).toBeGreaterThanOrEqual(0);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
