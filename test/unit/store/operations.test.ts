/** Operations are called by the names of their values; the declaration beside the script has their order. */
import { expect, it } from "vitest";
import type { ScriptReply } from "../../../src/scripts/redis-api.js";
import { InvalidArgument } from "../../../src/store/errors.js";
import { callOperation } from "../../../src/store/operations.js";
import type { Store } from "../../../src/store/store.js";

/** A store that records its calls and replies the same to all. */
function storeThatReplies(reply: ScriptReply) {
  const calls: Parameters<Store["run"]>[] = [];
  const run: Store["run"] = async (...call) => {
    calls.push(call);
    return reply;
  };
  return { calls, run };
}

const limits = { clusterCapacity: 100, clusterRate: 5, nodeTtlMs: 1000, shards: 1 };
const keys = { ledger: "L", nodes: "N", cluster: "C" };
const numbers = { burst: 1, guaranteed: 2, priority: 3, fillUs: 4, granted: 5, spent: 6, returned: 7 };

it("values reach the script in the declared order, whatever the caller's", async () => {
  const store = storeThatReplies(["ok", 3, 1, 250, 1, "ok", 9, 8, 7, 6, 1, "recalling", 0, 0, 0, 10, 0]);
  const items = ["a", "b"].map((id) => ({ borrow: 1, want: 9, need: 8, ...numbers, id }));
  const values = { node: "n@1", seq: 7, ...limits };
  const reply = await callOperation(store, "grant", { keys, moreKeys: ["A", "B"], values, items });
  const [name, calledKeys, args] = store.calls[0]!;
  expect([name, calledKeys]).toEqual(["grant", ["C", "N", "L", "A", "B"]]);
  const perApp = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1];
  expect(args).toEqual([100, 5, 1000, 1, 7, "n@1", "a", ...perApp, "b", ...perApp]);
  expect(reply).toEqual({
    ...{ code: "ok", liveNodes: 3, emergency: true, emergencyLeftMs: 250, known: true },
    items: [
      { code: "ok", granted: 9, remaining: 8, limit: 7, retryAfterMs: 6, scarce: true },
      { code: "recalling", granted: 0, remaining: 0, limit: 0, retryAfterMs: 10, scarce: false },
    ],
  });
});

it("flags are sent as 0 and 1, and micro-tokens are replied in tokens", async () => {
  const store = storeThatReplies(["ok", 1, 250_000]);
  const values = { ...limits, id: "a", burst: 1, guaranteed: 2, priority: 3, fillUs: 0, tolerance: 9, force: true };
  const call = { keys: { cluster: "C", app: "A", nodes: "N", operation: "O" }, moreKeys: [], values, items: [] };
  expect(await callOperation(store, "reconcile", call)).toMatchObject({ correctionsMade: 1, driftBefore: 0.25 });
  expect(store.calls[0]?.[2]).toEqual([100, 5, 1000, 1, "a", 1, 2, 3, 0, 9, 1]);
});

it("a script that stops early replies nothing for the rest", async () => {
  const store = storeThatReplies(["stale_message", 0, 0, 0, 0]);
  const reply = await callOperation(store, "report", {
    keys,
    moreKeys: [],
    values: { ...limits, seq: 1, node: "n", leave: false },
    items: [],
  });
  expect(reply).toMatchObject({ code: "stale_message", known: false, items: [] });
});

it("an invalid argument rejects with its name", async () => {
  const store = storeThatReplies(["invalid_argument", "ttl_ms"]);
  const call = callOperation(store, "lock", { keys: { lock: "K" }, values: { owner: "o", ttlMs: 0, release: false } });
  await expect(call).rejects.toThrow(InvalidArgument);
  await expect(call).rejects.toMatchObject({ field: "ttl_ms" });
});
