/** Reconciliation returns tokens of dead nodes once and corrects leaks, identically on every store. */
import { expect } from "vitest";
import { ledgerKey } from "../../src/core/keys.js";
import { withLostLedgers } from "../support/lost-ledgers.js";
import { createQuota } from "../support/split-quota.js";
import { type Bench, forEachBackend } from "./backends.js";

const SECOND = 1_000_000;
const TTL = 3000;
const app = { id: "video", guaranteed: 0, burst: 200, priority: 1, borrow: false };
const other = { ...app, id: "audio" };
const idle = { granted: 0, spent: 0, returned: 0, want: 0 };
const how = (operation: string, force = false) => ({ tolerance: 0.1, force, operation });

const clusterOf = (bench: Bench) => ({ id: bench.name, capacity: 1000, rate: 0, nodeTtlMs: TTL });
const quotaOf = (bench: Bench) => createQuota(bench.store, clusterOf(bench));
const losingQuotaOf = (bench: Bench) => createQuota(withLostLedgers(bench.store), clusterOf(bench));

/** Lets time pass while a service ticks, as it does in production. */
async function pass(bench: Bench, quota: ReturnType<typeof quotaOf>, milliseconds: number): Promise<void> {
  for (let left = milliseconds; left > 0; left -= 500) {
    bench.store.clock.now += Math.min(left, 500) * 1000;
    await quota.emergencyCheck(1000, false);
  }
}

forEachBackend("reconcile", (it) => {
  it("tokens of a dead node are returned to L1 and L2 after its time-to-live, once", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 100 }]);
    await quota.report({ node: "n1", epoch: 1, seq: 2 }, [{ app, granted: 100, spent: 30, returned: 0 }], false);
    await pass(bench, quota, TTL);
    expect(await quota.reconcile(app, how("r1"))).toMatchObject({
      correctionsMade: 0,
      recoveredTokens: 0,
      deadNodes: 0,
    });
    await pass(bench, quota, 500);
    const result = await quota.reconcile(app, how("r2"));
    expect(result).toMatchObject({ correctionsMade: 1, recoveredTokens: 70, deadNodes: 1, driftBefore: 0 });
    expect(await quota.reconcile(app, how("r3"))).toMatchObject({ recoveredTokens: 0, deadNodes: 0 });
    expect(await quota.inspect(app)).toMatchObject({ tokens: 170, clusterTokens: 970, returned: 70 });
  });

  it("an operation that changed nothing leaves no reply in the store, one that did leaves it", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 100 }]);
    expect(await quota.reconcile(app, how("r1"))).toMatchObject({ correctionsMade: 0, recoveredTokens: 0 });
    await pass(bench, quota, TTL + 500);
    for (let i = 0; i < 2; i++) {
      expect(await quota.reconcile(app, how("r1"))).toMatchObject({ correctionsMade: 1, recoveredTokens: 100 });
    }
    expect(await quota.inspect(app)).toMatchObject({ tokens: 200, returned: 100 });
  });

  it("a node restarted with the same id has its own ledger; the old one is recovered once", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 100 }]);
    await quota.grant({ node: "n1", epoch: 2, seq: 1 }, [{ app, ...idle, need: 20 }]);
    for (let i = 0; i < 8; i++) {
      await pass(bench, quota, 500);
      await quota.heartbeat({ node: "n1", epoch: 2 });
    }
    expect(await quota.reconcile(app, how("r1"))).toMatchObject({ recoveredTokens: 100, deadNodes: 1 });
    expect(await quota.inspect(app)).toMatchObject({ tokens: 180 });
    expect(await quota.nodes()).toMatchObject([{ node: "n1@2", alive: true }]);
  });

  it("a node paused past its time-to-live gets epoch_closed and is charged for its spend", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 100 }]);
    await pass(bench, quota, TTL + 500);
    await quota.reconcile(app, how("r1"));
    expect(await quota.heartbeat({ node: "n1", epoch: 1 })).toMatchObject({ code: "epoch_closed", liveNodes: 0 });
    const late = { app, granted: 100, spent: 25, returned: 0, need: 10, want: 10 };
    expect(await quota.grant({ node: "n1", epoch: 1, seq: 2 }, [late])).toMatchObject({
      code: "epoch_closed",
      apps: [],
    });
    expect(await quota.inspect(app)).toMatchObject({ tokens: 175, spent: 25 });
  });

  it("no node is declared dead because the clock jumps an hour ahead or the store was down", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 100 }]);
    bench.store.clock.now += 3600 * SECOND;
    expect(await quota.reconcile(app, how("r1"))).toMatchObject({ recoveredTokens: 0, deadNodes: 0 });
    expect(await quota.heartbeat({ node: "n1", epoch: 1 })).toMatchObject({ code: "ok", liveNodes: 1 });
  });

  it("tokens of a lost ledger are returned when the drift exceeds the tolerance", async (bench) => {
    const quota = quotaOf(bench);
    await losingQuotaOf(bench).grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 27 }]);
    await quota.grant({ node: "n2", epoch: 1, seq: 1 }, [{ app, ...idle, need: 20 }]);
    const result = await quota.reconcile(app, how("r1"));
    expect(result).toEqual({
      ...{ correctionsMade: 1, driftBefore: 0.15, driftAfter: 0, expectedTokens: 180, actualTokens: 153 },
      ...{ correction: 27, recoveredTokens: 0, deadNodes: 0 },
    });
    expect(await quota.inspect(app)).toMatchObject({ tokens: 180, clusterTokens: 980 });
    expect(await quota.reconcile(app, how("r1"))).toEqual(result);
    expect(await quota.reconcile(app, how("r2"))).toMatchObject({ correctionsMade: 0, driftBefore: 0 });
  });

  it("a small drift is corrected only with force", async (bench) => {
    const quota = quotaOf(bench);
    await losingQuotaOf(bench).grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 10 }]);
    expect(await quota.reconcile(app, how("r1"))).toMatchObject({ correction: 0, driftBefore: 0.05, driftAfter: 0.05 });
    expect(await quota.reconcile(app, how("r2", true))).toMatchObject({ correction: 10, driftAfter: 0 });
  });

  it("a node that leaves without naming an app counts as dead until the app is reconciled", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant({ node: "n1", epoch: 1, seq: 1 }, [
      { app, ...idle, need: 10 },
      { app: other, ...idle, need: 20 },
    ]);
    const left = await quota.report({ node: "n1", epoch: 1, seq: 2 }, [{ app, ...idle, granted: 10 }], true);
    expect(left).toMatchObject({ code: "ok", liveNodes: 0 });
    expect(await quota.nodes()).toMatchObject([{ node: "n1@1", alive: false }]);
    expect(await quota.ledger("n1@1")).toMatchObject({ closed: true, held: 20 });
    expect(await quota.reconcile(app, how("r1"))).toMatchObject({ recoveredTokens: 0, driftBefore: 0 });
    expect(await quota.reconcile(other, how("r2"))).toMatchObject({ recoveredTokens: 20, driftBefore: 0 });
    expect(await quota.nodes()).toEqual([]);
  });

  it("a dead node is removed when the last of its apps has been reconciled", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant({ node: "n1", epoch: 1, seq: 1 }, [
      { app, ...idle, need: 10 },
      { app: other, ...idle, need: 20 },
    ]);
    await pass(bench, quota, TTL + 500);
    await quota.reconcile(app, how("r1"));
    expect(await quota.nodes()).toMatchObject([{ node: "n1@1", alive: false }]);
    expect(await quota.ledger("n1@1")).toMatchObject({ closed: true, held: 20 });
    expect(await quota.reconcile(other, how("r2"))).toMatchObject({ recoveredTokens: 20 });
    expect(await quota.nodes()).toEqual([]);
  });

  it("a dead node that only sent heartbeats is removed", async (bench) => {
    const quota = quotaOf(bench);
    await quota.heartbeat({ node: "n1", epoch: 1 });
    await pass(bench, quota, TTL + 500);
    expect(await quota.reconcile(app, how("r1"))).toMatchObject({ correctionsMade: 0, deadNodes: 1 });
    expect(await quota.nodes()).toEqual([]);
  });

  it("an incomplete list of ledgers is never treated as a leak", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 100 }]);
    const keys = ["cluster", "app:video", "nodes", "op:x"].map((name) => `ratelimit:{${bench.name}/0}:${name}`);
    const args = [1000, 0, TTL, 1, "video", 200, 0, 1, 0, 100_000, 1];
    expect(await bench.store.run("reconcile", keys, args)).toEqual(["stale_message"]);
    const wrongKeys = [...keys, ledgerKey(`${bench.name}/0`, "n2@1")];
    expect(await bench.store.run("reconcile", wrongKeys, [...args, "n2@1"])).toEqual(["stale_message"]);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 100 });
  });
});
