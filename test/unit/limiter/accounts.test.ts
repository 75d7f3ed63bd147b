/** A value's account that was released, reported and forgotten while a request still held it. */
import { expect, it } from "vitest";
import { defaultLeaseOptions } from "../../../src/core/lease.js";
import { createAccounts } from "../../../src/limiter/accounts.js";
import { createLimiterHost } from "../../../src/limiter/limiter-host.js";
import { newLimiterNodes } from "../../../src/limiter/shard-syncers.js";
import { createSimulatedClock } from "../../support/simulated-clock.js";
import { limitedApp } from "../../support/simulation.js";

const value = limitedApp({ id: "rate-limit:x", guaranteed: 1, burst: 5 });

function createWorld() {
  const clock = createSimulatedClock();
  const options = { lease: defaultLeaseOptions, timeoutMs: 1_000, failOpenTokens: undefined };
  const accounts = createAccounts({ apps: [], nodes: newLimiterNodes(options, 1), now: clock.now });
  const host = createLimiterHost({
    clock,
    defer: queueMicrotask,
    observer: {},
    accounts,
    syncerOf: () => ({ sync() {}, syncAfterGap() {}, level: () => 0 }),
    valueAccount: () => accounts.enterLimit(value, true),
  });
  const first = accounts.enterLimit(value, true);
  accounts.leaveLimit(first);
  accounts.forget(first);
  return { accounts, host, first };
}

it("does not count twice as a value that has left", () => {
  const { accounts, first } = createWorld();
  accounts.forget(first);
  expect(accounts.valueCount()).toBe(0);
});

it("does not take the place of a newer account of the value", () => {
  const { accounts, host, first } = createWorld();
  const second = accounts.enterLimit(value, true);
  expect(second).not.toBe(first);
  expect(host.currentAccount(first)).toBe(second);
  accounts.leaveLimit(second);
  accounts.forget(first);
  expect(accounts.limitOwner(value.id)).toBe(second);
  expect(accounts.leavingValueCount()).toBe(1);
});
