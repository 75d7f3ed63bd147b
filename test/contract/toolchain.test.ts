/** The toolchain: one source gives the same answers in Node, in luajit and in redis, and what it generates loads. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { flattenToLua } from "../../build/lua.js";
import { fromRoot } from "../../build/paths.js";
import type { RedisApi } from "../../src/scripts/redis-api.js";
import { loadScripts } from "../../src/store/script-files.js";
import { type RedisServer, startRedis } from "../support/redis-server.js";
import { isEven, isOdd } from "../unit/build/fixtures/flatten/recursion.js";
import { script } from "../unit/build/fixtures/flatten/script.js";
import { toll } from "../unit/build/fixtures/flatten/toll.js";

const folder = "test/unit/build/fixtures/flatten";
const weights = [0, 0.25, 1, 7, 1000, 1013.5, 5000, -40];

function luajit(program: string): string {
  return execFileSync("luajit", ["-"], { input: program, encoding: "utf8" });
}

describe("luajit", () => {
  test.each(["5.1", "JIT"] as const)("answers as Node does, compiled for %s", (target) => {
    const { code } = flattenToLua({ entry: `${folder}/toll.ts`, folders: [folder], target });
    const calls = weights.map((weight) => {
      return `do local t = core.toll(${weight}); print(string.format("%.17g %d %s", t.amount, t.LIMIT, t.label)) end`;
    });
    const answers = luajit(`local core = (function()\n${code}end)()\n${calls.join("\n")}\n`);
    const inNode = weights.map((weight) => {
      const { amount, LIMIT, label } = toll(weight);
      return `${amount} ${LIMIT} ${label}\n`;
    });
    expect(answers).toBe(inNode.join(""));
  });

  test("runs functions that call each other", () => {
    const { code } = flattenToLua({ entry: `${folder}/recursion.ts`, folders: [folder], target: "JIT" });
    const answers = luajit(`local core = (function()\n${code}end)()\nprint(core.isEven(10), core.isOdd(10))\n`);
    expect(answers).toBe(`${isEven(10)}\t${isOdd(10)}\n`);
  });

  test("loads every generated file", () => {
    const files = readdirSync(fromRoot("dist/lua"), { recursive: true, encoding: "utf8" });
    const generated = files.filter((file) => file.endsWith(".lua"));
    // Besides the scripts: the core, and the planes for nginx and Envoy.
    expect(generated.length).toBe(loadScripts().size + 3);
    for (const file of generated) {
      const path = fromRoot(`dist/lua/${file}`);
      expect(luajit(`print(loadfile(${JSON.stringify(path)}) ~= nil)`), file).toBe("true\n");
    }
  });
});

describe("redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  test("answers as Node does", async () => {
    const { code } = flattenToLua({
      entry: `${folder}/script.ts`,
      folders: [folder],
      exports: ["script"],
      target: "5.1",
      ending: "return script(redis, KEYS, ARGV)",
    });
    const inNode = (before: string | false, ...argv: string[]) => {
      const call = (command: string) => (command === "GET" ? before : "OK");
      return script({ call } as unknown as RedisApi, ["key"], argv);
    };
    const source = `#!lua\n${code}`;
    expect(await server.command("EVAL", source, 1, "key", "one", "")).toEqual(inNode(false, "one", ""));
    expect(await server.command("EVAL", source, 1, "key", "and", "two")).toEqual(inNode("one", "and", "two"));
    expect(await server.command("GET", "key")).toBe("and");
  });

  test("accepts every generated script, under the SHA1 of the manifest", async () => {
    for (const [name, { source, sha1, bytes, flags }] of loadScripts()) {
      expect(source.split("\n")[0], name).toBe(flags === "" ? "#!lua" : `#!lua flags=${flags}`);
      expect(createHash("sha1").update(source).digest("hex"), name).toBe(sha1);
      expect(Buffer.byteLength(source), name).toBe(bytes);
      expect(await server.command("SCRIPT", "LOAD", source), name).toBe(sha1);
    }
  });
});

test("the generated scripts name their source and no machine", () => {
  for (const [name] of loadScripts()) {
    const text = readFileSync(fromRoot(`dist/lua/redis/${name}.lua`), "utf8");
    expect(text).toContain(`generated from src/scripts/${name}.ts`);
    expect(text).not.toContain(fromRoot(""));
    expect(text).not.toMatch(/____exports|require/);
  }
});
