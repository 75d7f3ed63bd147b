/** The configuration layer in the store: one of two concurrent writers wins, and every write gets a new revision. */
import { expect } from "vitest";
import { configKey, operationKey } from "../../src/core/keys.js";
import { type Bench, forEachBackend } from "./backends.js";

const ANY = -1;
const TEN_MINUTES_US = 600_000_000;

function write(bench: Bench, expected: number | string, config: string, operation = config) {
  const keys = [configKey(bench.name), operationKey(bench.name, operation)];
  return bench.store.run("config-write", keys, [expected, config]);
}

const read = (bench: Bench, known: number | string = ANY) =>
  bench.store.run("config-read", [configKey(bench.name)], [known]);

forEachBackend("the store layer of the configuration", (it) => {
  it("does not exist before the first write", async (bench) => {
    expect(await read(bench)).toEqual(["ok", 0, ""]);
    expect(await read(bench, 0)).toEqual(["ok", 0, ""]);
  });

  it("has a higher revision after each write, and is replaced as a whole", async (bench) => {
    expect(await write(bench, ANY, '{"apps":{"a":{}}}')).toEqual(["ok", 1, 1]);
    expect(await write(bench, ANY, '{"fail_open_tokens":5}')).toEqual(["ok", 1, 2]);
    expect(await read(bench)).toEqual(["ok", 2, '{"fail_open_tokens":5}']);
  });

  it("is not sent to a caller that has this revision", async (bench) => {
    await write(bench, ANY, "{}");
    expect(await read(bench, 0)).toEqual(["ok", 1, "{}"]);
    expect(await read(bench, 1)).toEqual(["ok", 1, ""]);
    // A caller with a later revision than the store gets the layer: the store lost its data.
    expect(await read(bench, 7)).toEqual(["ok", 1, "{}"]);
  });

  it("is written by one of two callers that expect the same revision", async (bench) => {
    await write(bench, ANY, "{}");
    expect(await write(bench, 1, '{"one":1}')).toEqual(["ok", 1, 2]);
    expect(await write(bench, 1, '{"two":2}')).toEqual(["ok", 0, 2]);
    expect(await read(bench)).toEqual(["ok", 2, '{"one":1}']);
    expect(await write(bench, 0, '{"three":3}')).toEqual(["ok", 0, 2]);
  });

  it("is written by the first of two callers that expect no layer", async (bench) => {
    expect(await write(bench, 0, '{"one":1}')).toEqual(["ok", 1, 1]);
    expect(await write(bench, 0, '{"two":2}')).toEqual(["ok", 0, 1]);
  });

  it("is written once by a repeated operation, and a conflict stays a conflict", async (bench) => {
    expect(await write(bench, ANY, '{"a":1}', "op-1")).toEqual(["ok", 1, 1]);
    expect(await write(bench, 5, '{"b":1}', "op-2")).toEqual(["ok", 0, 1]);
    expect(await write(bench, ANY, '{"c":1}', "op-3")).toEqual(["ok", 1, 2]);
    expect(await write(bench, ANY, '{"a":1}', "op-1")).toEqual(["ok", 1, 1]);
    bench.store.clock.now += TEN_MINUTES_US / 2;
    expect(await write(bench, 5, '{"b":1}', "op-2")).toEqual(["ok", 0, 1]);
    expect(await read(bench)).toEqual(["ok", 2, '{"c":1}']);
  });

  it("is separate for each cluster", async (bench) => {
    await write(bench, ANY, '{"a":1}');
    expect(await read({ ...bench, name: `${bench.name}-2` })).toEqual(["ok", 0, ""]);
  });

  it("can have a size of up to 1 MiB", async (bench) => {
    const large = `"${"x".repeat(1024 * 1024 - 2)}"`;
    expect(await write(bench, ANY, `${large} `, "op-1")).toEqual(["invalid_argument", "config"]);
    expect(await read(bench)).toEqual(["ok", 0, ""]);
    expect(await write(bench, ANY, large, "op-2")).toEqual(["ok", 1, 1]);
    expect((await read(bench))[2]).toHaveLength(1024 * 1024);
  });

  it("is not changed by invalid arguments, and the reply names them", async (bench) => {
    await write(bench, ANY, '{"a":1}');
    const bad: [number | string, string, string][] = [
      [-2, "{}", "revision"],
      [0.5, "{}", "revision"],
      ["", "{}", "revision"],
      ["any", "{}", "revision"],
      [1e300, "{}", "revision"],
      [ANY, "", "config"],
    ];
    for (const [revision, config, field] of bad) {
      expect(await write(bench, revision, config, "op")).toEqual(["invalid_argument", field]);
    }
    for (const known of [-2, 0.5, "", "x"]) expect(await read(bench, known)).toEqual(["invalid_argument", "revision"]);
    const { store, name } = bench;
    expect(await store.run("config-read", [], [ANY])).toEqual(["invalid_argument", "keys"]);
    expect(await store.run("config-read", [configKey(name)], [])).toEqual(["invalid_argument", "arguments"]);
    expect(await store.run("config-write", [configKey(name)], [ANY, "{}"])).toEqual(["invalid_argument", "keys"]);
    const keys = [configKey(name), operationKey(name, "op")];
    expect(await store.run("config-write", keys, [ANY])).toEqual(["invalid_argument", "arguments"]);
    expect(await read(bench)).toEqual(["ok", 1, '{"a":1}']);
  });
});
