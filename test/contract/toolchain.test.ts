/** The build: one source gives the same results in Node, LuaJIT and Redis, and every generated file can be loaded. */
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { luaBundle } from "../../build/lua-bundle.js";
import { fromRoot } from "../../build/paths.js";
import { catalog, type ScriptName } from "../../src/scripts/catalog.js";
import { loadLibrary } from "../../src/store/function-library.js";
import { functionName } from "../../src/store/function-names.js";
import { type RedisServer, startRedis } from "../support/redis-server.js";
import { describeToll, isEven, isOdd } from "../unit/build/fixtures/bundle/toll.js";
import { runLuajit } from "./core-runtimes.js";

const fixtures = "test/unit/build/fixtures/bundle";
const luajit = (program: string) => runLuajit(["-"], Buffer.from(program)).toString();
const run = (bundle: string, calls: string) => luajit(`local core = (function(...)\n${bundle}end)(...)\n${calls}\n`);

describe("a bundle", () => {
  test.each(["5.1", "JIT"] as const)("gives the same results as Node, compiled for %s", (target) => {
    const weights = [0, 0.25, 1, 7, 1000, 1013.5, 5000, -40];
    const bundle = luaBundle({ entry: `${fixtures}/toll.ts`, target });
    const calls = weights.map((weight) => `print(core.describeToll(${weight}))`).join("\n");
    expect(run(bundle, calls)).toBe(weights.map((weight) => `${describeToll(weight)}\n`).join(""));
    expect(run(bundle, "print(core.isEven(10), core.isOdd(10))")).toBe(`${isEven(10)}\t${isOdd(10)}\n`);
  });

  test("contains the Lua platform and no paths of this machine", () => {
    const bundle = luaBundle({ entry: `${fixtures}/toll.ts`, target: "5.1" });
    expect(bundle).toContain('["src.core.platform-lua"]');
    expect(bundle).not.toContain('["src.core.platform"]');
    expect(bundle).not.toContain(fromRoot(""));
  });

  test.each([
    ["type-error.ts", /type-error\.ts:3: Type 'string' is not assignable/],
    ["unsupported.ts", /unsupported\.ts:3: .*not supported/i],
    ["double-minus.ts", /double-minus\.ts:3: a minus may not follow a minus/],
    ["node-import.ts", /node-import\.ts:2: Cannot find name 'node:fs'/],
  ])("is not built from %s, and the error states file and line", (file, message) => {
    expect(() => luaBundle({ entry: `${fixtures}/${file}`, target: "5.1" })).toThrow(message);
  });
});

test("LuaJIT loads every generated file", () => {
  const files = readdirSync(fromRoot("dist/lua"), { recursive: true, encoding: "utf8" });
  const generated = files.filter((file) => file.endsWith(".lua")).sort();
  expect(generated).toEqual(["envoy/tollgate.lua", "jit/core.lua", "nginx/tollgate.lua", "redis/tollgate.lua"]);
  for (const file of generated) {
    const path = fromRoot(`dist/lua/${file}`);
    // LuaJIT skips a first line with #! only in files that it runs itself.
    const chunk = `local text = io.open(${JSON.stringify(path)}):read("*a"):gsub("^#[^\\n]*", "")`;
    expect(luajit(`${chunk} print(loadstring(text) ~= nil)`), file).toBe("true\n");
    expect(readFileSync(path, "utf8"), file).not.toContain(fromRoot(""));
  }
});

describe("the function library", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  test("is loaded by Redis under its own name, with the flags of the catalog", async () => {
    const { name, source } = loadLibrary();
    expect(name).toMatch(/^tollgate_[0-9a-f]{12}$/);
    expect(await server.command("FUNCTION", "LOAD", source)).toBe(name);
    const [library] = (await server.command("FUNCTION", "LIST", "LIBRARYNAME", name)) as unknown[][];
    const functions = library![library!.indexOf("functions") + 1] as string[][];
    const loaded = functions.map((fields) => [fields[1]!, (fields[5] as unknown as string[]).join()]).sort();
    const expected = Object.entries(catalog).map(([script, { flags }]) => [
      functionName(name, script as ScriptName),
      flags,
    ]);
    expect(loaded).toEqual(expected.sort());
  });

  test("rejects a call without keys; the store uses such a call to check that the library is loaded", async () => {
    const reply = await server.command("FCALL", functionName(loadLibrary().name, "inspect"), 0);
    expect(reply).toEqual(["invalid_argument", "keys"]);
  });
});
