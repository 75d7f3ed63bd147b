/** Descriptor limits are exact over months, expire when full, and leave a ledger with the final report. */
import { expect } from "vitest";
import { createQuota, type GrantRequest } from "../support/split-quota.js";
import { type Bench, forEachBackend } from "./backends.js";

const SECOND = 1_000_000;
const DAY = 86_400 * SECOND;
const MONTH_S = 30 * 86_400;
const monthly = { id: "rate-limit:a", guaranteed: 0, burst: 1, priority: 2, borrow: false, fillSeconds: MONTH_S };
const hourly = { ...monthly, id: "rate-limit:b", burst: 10, fillSeconds: 3_600 };

const quotaOf = (bench: Bench) =>
  createQuota(bench.store, { id: bench.name, capacity: 1000, rate: 1000, nodeTtlMs: 3000 });
const node = (seq: number, name = "n1") => ({ node: name, epoch: 1, seq });
const nothing = { granted: 0, spent: 0, returned: 0, need: 0, want: 0 };
const ask = (app: GrantRequest["app"], more: Partial<GrantRequest>): GrantRequest => ({ ...nothing, app, ...more });

forEachBackend("descriptor limits", (it) => {
  it("a limit of one per month is refilled after one month, exact to two seconds", async (bench) => {
    const quota = quotaOf(bench);
    const spent = { granted: 1, spent: 1 };
    expect((await quota.grant(node(1), [ask(monthly, { need: 1 })])).apps[0]).toMatchObject({ code: "ok", granted: 1 });
    await quota.report(node(2), [{ app: monthly, ...spent, returned: 0 }], false);
    bench.store.clock.now += 30 * DAY - 1_000;
    const early = await quota.grant(node(3), [ask(monthly, { ...spent, need: 1 })]);
    expect(early.apps[0]).toMatchObject({ code: "quota_exhausted", granted: 1 });
    bench.store.clock.now += 3_000;
    expect((await quota.grant(node(4), [ask(monthly, { ...spent, need: 1 })])).apps[0]).toMatchObject({ granted: 2 });
  });

  it("a final report is recorded, and the node's counters start at zero", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(hourly, { need: 4 })]);
    const last = ask(hourly, { granted: 4, spent: 3, returned: 1, finalReport: true });
    expect((await quota.grant(node(2), [last])).apps[0]).toMatchObject({ code: "ok", granted: 4, remaining: 7 });
    expect((await quota.ledger("n1@1")).apps).toEqual([]);
    const again = await quota.grant(node(3), [ask(hourly, { need: 2 })]);
    expect(again.apps[0]).toMatchObject({ granted: 2, remaining: 5 });
    expect((await quota.ledger("n1@1")).apps).toEqual([{ app: hourly.id, granted: 2, spent: 0, returned: 0 }]);
  });

  it("a final report can be repeated when its reply was lost", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(hourly, { need: 4 })]);
    const last = ask(hourly, { granted: 4, spent: 4, finalReport: true });
    for (let seq = 2; seq < 5; seq++) {
      expect((await quota.grant(node(seq), [last])).apps[0]).toMatchObject({ granted: 4, remaining: 6 });
    }
    expect(await quota.inspect(hourly)).toMatchObject({ tokens: 6, granted: 4, spent: 4 });
    expect((await quota.ledger("n1@1")).held).toBe(0);
  });

  it("a final report while tokens are held keeps the entry in the ledger", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(hourly, { need: 4 })]);
    await quota.grant(node(2), [ask(hourly, { granted: 4, spent: 1, finalReport: true })]);
    expect((await quota.ledger("n1@1")).apps).toMatchObject([{ granted: 4, spent: 1 }]);
    // The reply that granted these tokens was lost: the node does not know that it holds them.
    await quota.grant(node(3), [ask(hourly, { granted: 4, spent: 4, need: 2 })]);
    const early = await quota.grant(node(4), [ask(hourly, { granted: 4, spent: 4, finalReport: true })]);
    expect(early.apps[0]).toMatchObject({ granted: 6 });
    expect((await quota.ledger("n1@1")).held).toBe(2);
  });

  it("reconciling an expired limit leaves it full", async (bench) => {
    const quota = quotaOf(bench);
    await quota.heartbeat({ node: "n1", epoch: 1 });
    const policy = { id: hourly.id, guaranteed: 0, burst: 1_000_000_000, priority: 0, borrow: false };
    await quota.reconcile(policy, { tolerance: 1, force: false, operation: `${bench.name}-r1` });
    expect((await quota.grant(node(1), [ask(hourly, { need: 10 })])).apps[0]).toMatchObject({
      code: "ok",
      remaining: 0,
    });
  });

  it("an invalid fill time is rejected with the name of the argument", async (bench) => {
    const quota = quotaOf(bench);
    const forever = { ...hourly, fillSeconds: 315_360_001 };
    await expect(quota.grant(node(1), [ask(forever, { need: 1 })])).rejects.toThrow("fill_us");
  });
});
