/** Recalls: nodes return what they do not need at once, and requests wait for recalled tokens until their deadline. */
import { describe, expect, it } from "vitest";
import { PENDING } from "../../../src/engine/account.js";
import { newNode, urge } from "../../../src/engine/node.js";
import { isMessageDue, isPollDue, type PlannedSync } from "../../../src/engine/plan.js";
import { recallTokens } from "../../../src/engine/reply.js";
import { giveUpExpired } from "../../../src/engine/waiters.js";
import { createNodeDriver, limits } from "./node-driver.js";

const RECALLING = { code: "recalling", retryAfterMs: 10, scarce: true };

/** A node that was granted `tokens` and has spent one of them. */
function holding(tokens: number, given = {}) {
  const driver = createNodeDriver([limits({ id: "app", ...given })]);
  driver.request("app");
  driver.receive(driver.send(), () => ({ granted: tokens, remaining: 100 }));
  return { driver, account: driver.account("app") };
}

describe("a node whose tokens are recalled", () => {
  it("returns all that it does not need at once, without waiting for the next report", () => {
    const { driver, account } = holding(101);
    driver.advance(1000);
    expect(driver.send()).toEqual([]);
    recallTokens(driver.node, account);
    expect(driver.send()[0]!.message).toMatchObject({ granted: 101, spent: 1, returned: 100, need: 0 });
    expect(account.cell.get()).toBe(0);
  });

  it("returns them also if it has read a record from before the recall since then", () => {
    const { driver, account } = holding(101);
    recallTokens(driver.node, account);
    account.sync.plentiful = true;
    expect(driver.send()[0]!.message).toMatchObject({ spent: 1, returned: 100 });
  });

  it.each([
    ["of its spending", 5_000, 30],
    ["of what the bucket gains, if it spent more: a burst does not go on", 100, 3],
    ["of a small limit: nothing", 1, 0],
  ])("keeps 30 ms %s", (_, guaranteed, kept) => {
    const { driver, account } = holding(201, { guaranteed });
    for (let i = 0; i < 100; i++) driver.request("app");
    driver.advance(100);
    recallTokens(driver.node, account);
    expect(driver.send()[0]!.message).toMatchObject({ spent: 101, returned: 100 - kept });
    expect(account.cell.get()).toBe(kept);
  });

  it("reports what it spent even if it has nothing to return", () => {
    const { driver, account } = holding(11);
    for (let i = 0; i < 10; i++) driver.request("app");
    recallTokens(driver.node, account);
    expect(driver.send()[0]!.message).toMatchObject({ granted: 11, spent: 11, returned: 0 });
  });

  it("sends nothing if it holds nothing and everything is reported", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    recallTokens(driver.node, driver.account("app"));
    expect(driver.send()).toEqual([]);
  });

  it("does not ask for a new lease: tokens stay scarce until the store says otherwise", () => {
    const { driver, account } = holding(101);
    driver.advance(1000);
    recallTokens(driver.node, account);
    const [sent] = driver.send();
    expect(sent!.message.want).toBeLessThanOrEqual(1);
    driver.receive([sent!], () => ({ remaining: 100, scarce: true }));
    expect(account.sync.plentiful).toBe(false);
    driver.request("app");
    driver.advance(20);
    driver.receive(driver.send(), ({ message }) => ({ granted: message.granted + 1, scarce: false }));
    expect(account.sync.plentiful).toBe(true);
  });

  it("keeps its tokens for its own waiters, and asks for what they lack", () => {
    const { driver, account } = holding(5);
    const waiting = driver.request("app", 9 * 65_536);
    recallTokens(driver.node, account);
    const planned = driver.send();
    expect(planned[0]!.message).toMatchObject({ returned: 0, need: 6, want: 6 });
    driver.receive(planned, ({ message }) => ({ granted: message.granted + 6, scarce: true }));
    expect(waiting).toMatchObject({ code: "ok", source: "remote" });
    expect(account.cell.get()).toBe(0);
  });

  it("after a lost message returns the same tokens once", () => {
    const { driver, account } = holding(101);
    driver.advance(1000);
    recallTokens(driver.node, account);
    expect(driver.send()[0]!.message.returned).toBe(100);
    driver.fail();
    driver.advance(2000);
    expect(driver.send()[0]!.message.returned).toBe(100);
  });
});

describe("a request that waits for recalled tokens", () => {
  const waitingForRecall = () => {
    const driver = createNodeDriver([limits({ id: "app", onStoreFailure: "open" })]);
    const waiting = driver.request("app");
    driver.receive(driver.send(), () => RECALLING);
    expect(waiting.code).toBe(PENDING);
    return { driver, account: driver.account("app"), waiting };
  };

  it("asks again after 10 ms and is paid by what the others returned", () => {
    const { driver, waiting } = waitingForRecall();
    driver.advance(9);
    expect(driver.send()).toEqual([]);
    driver.advance(1);
    driver.receive(driver.send(), ({ message }) => ({ granted: message.granted + 1, scarce: true }));
    expect(waiting).toMatchObject({ code: "ok", source: "remote" });
  });

  it("is not refused by any number of replies that tokens are being recalled, and they are not cached", () => {
    const { driver, account, waiting } = waitingForRecall();
    for (let i = 0; i < 20; i++) {
      driver.advance(10);
      driver.receive(driver.send(), () => RECALLING);
      expect([waiting.code, account.lease.refusedUntil]).toEqual([PENDING, 0]);
    }
    driver.advance(10);
    driver.receive(driver.send(), () => ({ code: "quota_exhausted", retryAfterMs: 300, scarce: true }));
    expect(waiting).toMatchObject({ code: "quota_exhausted", source: "remote", retryAfterMs: 300 });
  });

  it("is refused at its deadline, and not admitted without the store: the store has replied", () => {
    const { driver, account, waiting } = waitingForRecall();
    const late = driver.request("app");
    driver.advance(1000);
    giveUpExpired(driver.node, account, driver.now());
    expect(waiting).toMatchObject({ code: "quota_exhausted", allowed: false, source: "remote", retryAfterMs: 10 });
    // About the second one the store has said nothing.
    expect(late).toMatchObject({ code: "ok", source: "without_store" });
  });

  it("is decided without the store if the next message fails", () => {
    const { driver, waiting } = waitingForRecall();
    driver.advance(10);
    driver.send();
    driver.fail();
    expect(waiting).toMatchObject({ code: "ok", source: "without_store" });
  });
});

describe("a store that does not know the node", () => {
  it("gets a report of everything that the node holds, also of apps without changes", () => {
    const apps = ["one", "two", "unused"].map((id) => limits({ id }));
    const driver = createNodeDriver(apps);
    for (const id of ["one", "two"]) driver.request(id);
    driver.fill();
    driver.advance(1000);
    expect(driver.send()).toEqual([]);
    driver.receive([], () => undefined, { known: false });
    const planned = driver.send();
    expect(planned.map(({ account }) => account.limits.id)).toEqual(["one", "two"]);
    for (const { message } of planned) expect(message).toMatchObject({ granted: 11, spent: 1, returned: 0 });
    driver.receive(planned, () => ({}));
    driver.advance(1000);
    expect(driver.send()).toEqual([]);
  });
});

describe("the accounts in a message", () => {
  const ids = (planned: PlannedSync[]) => planned.map(({ account }) => account.limits.id);
  const many = (count: number) => Array.from({ length: count }, (_, i) => limits({ id: `app-${i}` }));

  it("are only those that are due: others are not mentioned", () => {
    const driver = createNodeDriver(many(3));
    for (const { limits: app } of driver.accounts) driver.request(app.id);
    driver.fill();
    for (const { limits: app } of driver.accounts) driver.request(app.id);
    recallTokens(driver.node, driver.account("app-1"));
    driver.advance(100);
    expect(ids(driver.fill())).toEqual(["app-1"]);
    // The balance is low, so tokens are needed.
    for (let i = 0; i < 8; i++) driver.request("app-2");
    urge(driver.node, driver.account("app-2"));
    driver.advance(100);
    expect(ids(driver.fill())).toEqual(["app-2"]);
  });

  it("are examined once per second while tokens are plentiful, and every sync interval while they are scarce", () => {
    const driver = createNodeDriver(many(2));
    for (const { limits: app } of driver.accounts) driver.request(app.id);
    driver.receive(driver.send(), ({ account, message }) => ({
      granted: message.granted + 11,
      remaining: 100,
      scarce: account.limits.id === "app-1",
    }));
    driver.advance(100);
    const planned = driver.send();
    expect(ids(planned)).toEqual(["app-1"]);
    expect(planned[0]!.message.returned).toBeGreaterThan(0);
    // A whole batch was spent, but nobody has looked yet.
    driver.account("app-0").cell.add(-2000);
    driver.advance(100);
    driver.receive(planned, () => ({ scarce: true }));
    expect(ids(driver.send())).not.toContain("app-0");
    driver.advance(1000);
    expect(ids(driver.send())).toContain("app-0");
  });

  it("are spread over several messages if more than 400 are urgent, and none is forgotten", () => {
    const driver = createNodeDriver(many(1000));
    for (const { limits: app } of driver.accounts) driver.request(app.id);
    const sizes: number[] = [];
    const seen = new Set<string>();
    while (driver.node.urgent.length > 0) {
      const planned = driver.fill();
      sizes.push(planned.length);
      for (const id of ids(planned)) seen.add(id);
    }
    expect(sizes).toEqual([400, 400, 200]);
    expect(seen.size).toBe(1000);
    expect(driver.accounts.every(({ waiters }) => waiters.length === 0)).toBe(true);
  });

  it("are none for a node that only polls for recalls, once per sync interval while it holds tokens", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.receive([], () => undefined);
    expect(isPollDue(driver.node, driver.now() + 100)).toBe(false);
    driver.request("app");
    driver.fill();
    expect(isPollDue(driver.node, driver.now() + 49)).toBe(false);
    expect(isPollDue(driver.node, driver.now() + 50)).toBe(true);
    expect(isMessageDue(driver.node, [], driver.now() + 100)).toBe(false);
    const account = driver.account("app");
    account.sync.reportedSpent = account.lease.granted;
    expect(isPollDue(driver.node, driver.now() + 50)).toBe(false);
  });

  it("are sent to one shard only, one that replies, while it holds tokens of any", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    driver.fill();
    const { options, epoch, lastContact } = driver.node;
    const other = newNode(options, epoch, driver.node.peers);
    other.lastContact = lastContact;
    const due = () => [driver.node, other].map((node) => isPollDue(node, driver.now() + 100));
    expect(due()).toEqual([true, false]);
    driver.node.failuresInARow = 1;
    expect(due()).toEqual([false, true]);
    other.failuresInARow = 1;
    expect(due()).toEqual([true, false]);
    driver.node.epoch++;
    expect(due()).toEqual([false, true]);
  });
});
