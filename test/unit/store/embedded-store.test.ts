/** The embedded store runs scripts synchronously and atomically, and is at least as strict as Redis. */
import { describe, expect, it } from "vitest";
import type { RedisValue, Script } from "../../../src/scripts/redis-api.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../src/store/errors.js";
import { openStore } from "../../../src/store/open.js";

/** Runs one script. Its reply can have any type. */
function runOne(run: (...args: Parameters<Script>) => unknown, args: RedisValue[] = [], keys: string[] = ["k"]) {
  const store = createEmbeddedStore({ scripts: { it: { run: run as Script } } });
  return store.run("it" as never, keys, args);
}

describe("a script", () => {
  it("receives its keys, and its arguments as text", async () => {
    const reply = await runOne((_, keys, argv) => [...keys, ...argv], ["a", 1, 0.5, -0, 1e21], ["x", "y"]);
    expect(reply).toEqual(["x", "y", "a", "1", "0.5", "0", "1e+21"]);
  });

  it("has run when the call returns, before anything is awaited", async () => {
    let ran = false;
    const pending = runOne(() => {
      ran = true;
      return [];
    });
    expect(ran).toBe(true);
    await pending;
  });

  it("cannot change the caller's keys", async () => {
    const keys = ["k"];
    await runOne((_, own) => own.splice(0), [], keys);
    expect(keys).toEqual(["k"]);
  });

  it("keeps its writes when it fails midway, as in Redis", async () => {
    const scripts: Record<string, { run: Script }> = {
      half: {
        run: (redis) => {
          redis.call("SET", "k", "written");
          throw new Error("half way");
        },
      },
      read: { run: (redis) => [redis.call("GET", "k") || ""] },
    };
    const store = createEmbeddedStore({ scripts });
    await expect(store.run("half" as never, [], [])).rejects.toMatchObject({ kind: "script", message: /half way/ });
    expect(await store.run("read" as never, [], [])).toEqual(["written"]);
  });

  it("uses the injected clock", async () => {
    const scripts: Record<string, { run: Script }> = { time: { run: (redis) => redis.call("TIME") } };
    const store = createEmbeddedStore({ clock: () => 12_000_034, scripts });
    expect(await store.run("time" as never, [], [])).toEqual(["12", "34"]);
  });
});

describe("a reply", () => {
  it.each([
    ["a fraction", [1, 0.5]],
    ["NaN", [Number.NaN]],
    ["infinity", [Number.POSITIVE_INFINITY]],
    ["a number above 2^53", [2 ** 53]],
    ["a boolean", [true]],
    ["false", [false]],
    ["undefined", [undefined]],
    ["null", [null]],
    ["a list", [[1]]],
    ["a table", [{ ok: "OK" }]],
    ["no list", 5],
    ["nothing", undefined],
  ])("with %s is an error of kind script", async (_, reply) => {
    const error = await runOne(() => reply).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StoreError);
    expect(error).toMatchObject({ kind: "script" });
  });

  it("never contains negative zero, as in Redis", async () => {
    expect(Object.is((await runOne(() => [-0]))[0], 0)).toBe(true);
  });
});

describe("the store", () => {
  it("rejects an unknown script name with kind script, including names of built-in properties", async () => {
    const store = createEmbeddedStore();
    for (const name of ["nope", "toString", "__proto__"]) {
      await expect(store.run(name as never, [], [])).rejects.toMatchObject({ kind: "script" });
    }
  });

  it("rejects calls after close", async () => {
    const store = openStore("embedded");
    expect(await store.inspect()).toMatchObject({ kind: "embedded", nodes: 1, connectedNodes: 1, warnings: [] });
    await store.close();
    await store.close();
    await expect(store.run("nope" as never, [], [])).rejects.toMatchObject({ kind: "closed" });
  });
});
