/** An observed store replies the same, and every call is counted. */
import { describe, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../src/store/errors.js";
import { observeStore } from "../../../src/store/observed-store.js";

describe("an observed store", () => {
  it("replies the same, and reports outcome and duration of each call", async () => {
    const calls: [string, string, number][] = [];
    let now = 0;
    const plain = createEmbeddedStore();
    const clock = { now: () => (now += 2), after: () => () => {} };
    const store = observeStore(plain, { called: (...call) => void calls.push(call) }, clock);
    expect(store.kind).toBe(plain.kind);
    await store.run("nodes", ["cluster", "nodes"], ["1000", "1000000", "5000"]);
    await store.publish("channel", "hello");
    (await store.subscribe("channel", () => {}))();
    expect(await store.inspect()).toMatchObject({ kind: "embedded", callsInFlight: 0, mostCallsInFlight: 0 });
    await store.close();
    await expect(store.run("nodes", [], [])).rejects.toMatchObject({ kind: "closed" });
    expect(calls).toEqual([
      ["nodes", "ok", 0.002],
      ["publish", "ok", 0.002],
      ["subscribe", "ok", 0.002],
      ["inspect", "ok", 0.002],
      ["nodes", "closed", 0.002],
    ]);
  });

  it("returns the same promise, errors included", async () => {
    const answer = Promise.reject(new StoreError("timeout", "too late"));
    const store = observeStore({ ...createEmbeddedStore(), run: () => answer }, { called: () => {} });
    const got = store.run("grant", [], []);
    expect(got).toBe(answer);
    await expect(got).rejects.toMatchObject({ kind: "timeout" });
  });
});
