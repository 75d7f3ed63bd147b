/** Refunds of spending without the node that has spent it, identical on every store. */
import { expect } from "vitest";
import { createQuota } from "../support/split-quota.js";
import { type Bench, forEachBackend } from "./backends.js";

const app = { id: "video", guaranteed: 0, burst: 200, priority: 1, borrow: false };
const NODE = "n1@1";
const node = (seq: number) => ({ node: "n1", epoch: 1, seq });
const spent = (granted: number, tokens: number) => ({ app, granted, spent: tokens, returned: 0 });

/** The node has been granted 100 tokens and has spent 60 of them. */
async function start(bench: Bench) {
  const quota = createQuota(bench.store, { id: bench.name, capacity: 1000, rate: 0, nodeTtlMs: 3000 });
  await quota.grant(node(1), [{ ...spent(0, 0), need: 100, want: 100 }]);
  await quota.report(node(2), [spent(100, 60)], false);
  return quota;
}

forEachBackend("refunds without the node", (it) => {
  it("go to both buckets, up to what the node has spent, and once", async (bench) => {
    const quota = await start(bench);
    expect(await quota.refund(app, NODE, 40, "a")).toEqual({ code: "ok", refunded: 40, remaining: 140 });
    expect(await quota.refund(app, NODE, 40, "a")).toEqual({ code: "ok", refunded: 40, remaining: 140 });
    expect(await quota.refund(app, NODE, 40, "b")).toEqual({ code: "ok", refunded: 20, remaining: 160 });
    expect(await quota.refund(app, NODE, 40, "c")).toEqual({ code: "ok", refunded: 0, remaining: 160 });
    expect(await quota.inspect(app)).toMatchObject({ tokens: 160, clusterTokens: 960, granted: 100, spent: 0 });
  });

  it("leave the node its tokens and counters", async (bench) => {
    const quota = await start(bench);
    await quota.refund(app, NODE, 60, "a");
    const reply = await quota.grant(node(3), [{ ...spent(100, 100), need: 10, want: 10 }]);
    expect(reply.apps[0]).toMatchObject({ code: "ok", granted: 110, remaining: 150 });
    expect((await quota.ledger(NODE)).apps).toEqual([{ app: "video", granted: 110, spent: 100, returned: 0 }]);
    expect(await quota.refund(app, NODE, 100, "b")).toMatchObject({ refunded: 40 });
  });

  it("cannot be claimed by the node as well", async (bench) => {
    const quota = await start(bench);
    await quota.refund(app, NODE, 60, "a");
    await quota.report(node(3), [{ ...spent(100, 0), returned: 100 }], false);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 200, clusterTokens: 1000 });
    await quota.report(node(4), [{ ...spent(100, 0), returned: 100 }], true);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 200, clusterTokens: 1000 });
  });

  it("are nothing for a node that has spent nothing yet; the same operation works later", async (bench) => {
    const quota = await start(bench);
    expect(await quota.refund(app, "n2@1", 10, "a")).toMatchObject({ refunded: 0 });
    expect(await quota.refund({ ...app, id: "other" }, NODE, 10, "b")).toMatchObject({ refunded: 0 });
    await quota.grant({ node: "n2", epoch: 1, seq: 1 }, [{ ...spent(0, 0), need: 10, want: 10 }]);
    await quota.report({ node: "n2", epoch: 1, seq: 2 }, [spent(10, 10)], false);
    expect(await quota.refund(app, "n2@1", 10, "a")).toMatchObject({ refunded: 10 });
  });
});
