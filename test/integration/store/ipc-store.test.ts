/** A worker uses the store of the primary process: same replies and errors as a local store, and no call hangs. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { createIpcStore } from "../../../src/store/ipc/ipc-store.js";
import type { Store } from "../../../src/store/store.js";
import { loopMs } from "../../support/loop-time.js";
import { createQuota } from "../../support/split-quota.js";
import { waitFor } from "../../support/wait-for.js";

const program = new URL("../../support/store-primary.ts", import.meta.url).pathname;
const cluster = { id: "c", capacity: 10_000, rate: 1_000, nodeTtlMs: 10_000 };
const app = { id: "a", guaranteed: 100, burst: 1_000, priority: 1, borrow: false };

let primary: ChildProcess;
let store: Store;
beforeEach(async () => {
  primary = fork(program, { execArgv: ["--import", "tsx"] });
  await once(primary, "message");
  store = createIpcStore(primary, { deadlineMs: 2_000 });
});
afterEach(async () => {
  await store.close();
  if (primary.exitCode !== null || primary.signalCode !== null) return;
  const gone = once(primary, "exit");
  primary.kill("SIGKILL");
  await gone;
});

describe("a call", () => {
  it("gets the same replies as from the embedded store", async () => {
    const requests = [{ app, granted: 0, spent: 0, returned: 0, need: 10, want: 400 }];
    const answers = [];
    for (const each of [store, createEmbeddedStore()]) {
      const quota = createQuota(each, cluster);
      const first = await quota.grant({ node: "n", epoch: 1, seq: 1 }, requests);
      const again = await quota.grant({ node: "n", epoch: 1, seq: 1 }, requests);
      const settled = await quota.report(
        { node: "n", epoch: 1, seq: 2 },
        [{ app, granted: 400, spent: 100, returned: 0 }],
        true,
      );
      expect(again).toEqual(first);
      answers.push({ first, code: settled.code, granted: settled.apps[0]?.granted });
    }
    expect(answers[0]).toEqual(answers[1]);
  });

  it("with invalid arguments is rejected with InvalidArgument", async () => {
    const quota = createQuota(store, cluster);
    const requests = [{ app, granted: 0, spent: Number.NaN, returned: 0, need: 0, want: 0 }];
    await expect(quota.grant({ node: "n", epoch: 1, seq: 1 }, requests)).rejects.toMatchObject({
      name: "InvalidArgument",
    });
  });

  it("that fails keeps the kind of its error", async () => {
    await expect(store.run("nope" as never, [], [])).rejects.toMatchObject({ name: "StoreError", kind: "script" });
  });

  it("gets its own reply among many concurrent calls", async () => {
    const quota = createQuota(store, cluster);
    const grants = Array.from({ length: 200 }, (_, i) =>
      quota.grant({ node: `n${i}`, epoch: 1, seq: 1 }, [{ app, granted: 0, spent: 0, returned: 0, need: 5, want: 5 }]),
    );
    const codes = (await Promise.all(grants)).map(({ apps }) => apps[0]?.code);
    expect(codes.filter((code) => code === "ok")).toHaveLength(200);
    const more = await quota.grant({ node: "late", epoch: 1, seq: 1 }, [
      { app, granted: 0, spent: 0, returned: 0, need: 900, want: 900 },
    ]);
    expect(more.apps[0]?.code).toBe("recalling");
  });

  it("ends at its deadline when the primary is stopped, and a late reply is ignored", async () => {
    primary.kill("SIGSTOP");
    const started = loopMs();
    await expect(store.run("nodes", ["c", "n"], [1, 1, 1], { deadlineMs: 100 })).rejects.toMatchObject({
      kind: "timeout",
    });
    expect(loopMs() - started).toBeLessThan(1_000);
    primary.kill("SIGCONT");
    expect(await store.inspect()).toMatchObject({ kind: "embedded", connectedNodes: 1 });
  });

  it("fails at once when the primary dies, and so do later calls", async () => {
    primary.kill("SIGSTOP");
    const waiting = store.inspect();
    primary.kill("SIGKILL");
    await expect(waiting).rejects.toMatchObject({ kind: "unavailable" });
    await expect(store.inspect()).rejects.toMatchObject({ kind: "unavailable" });
  });

  it("is rejected when too many calls are in flight", async () => {
    const narrow = createIpcStore(primary, { maxInFlight: 2 });
    const outcomes = await Promise.allSettled([narrow.inspect(), narrow.inspect(), narrow.inspect()]);
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
    await expect(Promise.all([narrow.inspect(), narrow.inspect(), narrow.inspect()])).rejects.toMatchObject({
      kind: "overloaded",
    });
    await narrow.close();
  });

  it("is rejected when the store closes, whether it is in flight or new", async () => {
    const waiting = store.inspect();
    await store.close();
    await expect(waiting).rejects.toMatchObject({ kind: "closed" });
    await expect(store.run("nodes", [], [])).rejects.toMatchObject({ kind: "closed" });
  });
});

describe("a message", () => {
  it("reaches every subscriber of its channel in every worker, in order", async () => {
    const other = createIpcStore(primary);
    const received: string[][] = [[], [], []];
    await store.subscribe("news", (message) => received[0]?.push(message));
    await store.subscribe("news", (message) => received[1]?.push(message));
    await other.subscribe("weather", (message) => received[2]?.push(message));
    for (let i = 0; i < 5; i++) await other.publish("news", `m${i}`);
    await store.publish("weather", "rain\0\n");
    await waitFor(
      "all messages",
      () => received[0]?.length === 5 && received[1]?.length === 5 && received[2]?.length === 1,
    );
    expect(received).toEqual([["m0", "m1", "m2", "m3", "m4"], ["m0", "m1", "m2", "m3", "m4"], ["rain\0\n"]]);
    await other.close();
  });

  it("is not delivered after unsubscribing", async () => {
    const received: string[] = [];
    const leave = await store.subscribe("news", (message) => received.push(message));
    await store.publish("news", "one");
    await waitFor("the first", () => received.length === 1);
    leave();
    await store.publish("news", "two");
    await store.subscribe("news", (message) => received.push(`again ${message}`));
    await store.publish("news", "three");
    await waitFor("the third", () => received.length === 2);
    expect(received).toEqual(["one", "again three"]);
  });
});
