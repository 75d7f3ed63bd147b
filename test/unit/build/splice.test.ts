/** Functions written in the place of their calls, loops that count, and indexes: what changes, and that the answers do not. */
import { describe, expect, test } from "vitest";
import { flattenToLua } from "../../../build/lua.js";
import { answers, show } from "../../support/lua-answers.js";
import * as called from "./fixtures/splice/called.js";
import * as loops from "./fixtures/splice/loops.js";
import * as spliced from "./fixtures/splice/spliced.js";
import * as tables from "./fixtures/splice/tables.js";

const folder = "test/unit/build/fixtures/splice";
const numbers = [-3, -1, 0, 1, 2, 5, 7, 99.5];
const pairs = numbers.flatMap((a) => [-2, 0, 1, 7, 12].map((b): [number, number] => [a, b]));

function lua(name: string, exports?: string[]): string {
  const entry = `${folder}/${name}.ts`;
  return flattenToLua({ entry, folders: [folder], target: "5.1", runsWhole: true, ...(exports && { exports }) }).code;
}

function functionsIn(code: string): string[] {
  return [...code.matchAll(/local function (\w+)\(/g)].map(([, name]) => name as string);
}

describe("answers as in Node", () => {
  const programs = { spliced, called, loops, tables } as Record<
    string,
    Record<string, (a: number, b: number) => unknown>
  >;
  test.each(Object.keys(programs))("%s", (file) => {
    const calls = Object.keys(programs[file]!).flatMap((name) =>
      pairs.map((pair): [string, [number, number]] => [name, pair]),
    );
    const inNode = calls.map(([name, [a, b]]) => `${name}(${a}, ${b}) ${show(programs[file]![name]!(a, b))}`);
    const inLua = answers(lua(file), calls);
    expect(calls.map(([name, [a, b]], at) => `${name}(${a}, ${b}) ${inLua[at]}`)).toEqual(inNode);
  });
});

describe("spliced", () => {
  test.each([
    "inTotal",
    "inGrade",
    "inHalved",
    "inStepped",
    "inSearch",
    "inFilled",
    "inChosen",
    "inTwice",
    "inNegated",
    "inBoxed",
  ])("%s is the only function left", (name) => {
    expect(functionsIn(lua("spliced", [name]))).toEqual([name]);
  });

  test("a program that ends in a call of it has no function at all", () => {
    const { code } = flattenToLua({
      entry: `${folder}/spliced.ts`,
      folders: [folder],
      target: "5.1",
      exports: ["inTotal"],
      runsWhole: true,
      ending: "return inTotal(ARGV, KEYS)",
    });
    expect(functionsIn(code)).toEqual([]);
    expect(code).toContain("-- inTotal\n");
    expect(code).toContain("-- total\n");
  });

  test("a table whose fields alone are used is not made", () => {
    expect(lua("spliced", ["inBoxed"])).not.toContain("{level");
    expect(lua("spliced", ["inFilled"])).toContain("{level");
  });

  test("a function that one branch needs is built there", () => {
    expect(lua("spliced", ["inRarely"])).toMatch(/^local function rarely/m);
    const { code } = flattenToLua({
      entry: `${folder}/spliced.ts`,
      folders: [folder],
      target: "5.1",
      exports: ["inRarely"],
      runsWhole: true,
      ending: "return inRarely(ARGV, KEYS)",
    });
    expect(code).toMatch(/^if .* then\n {4}local function rarely/m);
  });

  test("the same source gives the same bytes", () => {
    expect(lua("spliced")).toBe(lua("spliced"));
  });
});

describe("still called", () => {
  test.each([
    ["fromLoop", "firstAbove"],
    ["thrice", "more"],
    ["recursive", "down"],
    ["asValue", "doubled"],
    ["withinSum", "raised"],
    ["twoWays", "sorted"],
    ["longTwice", "long"],
    ["leftOpen", "maybe"],
    ["leftOut", "withDefault"],
  ])("%s calls %s", (name, callee) => {
    expect(functionsIn(lua("called", [name]))).toContain(callee);
  });
});

test.each(Object.keys(tables))("the table in %s stays one", (name) => {
  expect(lua("tables", [name])).toContain("{level = a}");
});

describe("loops and indexes", () => {
  test("a loop to an end that stays the same is Lua's own", () => {
    expect(lua("loops", ["toList"])).toContain("for i = 0, #list - 1 do");
    expect(lua("loops", ["toNumber"])).toContain("for i = 2, 5 do");
  });

  test.each(["growing", "handedOn", "toFraction", "skipping", "movingEnd"])("%s is not", (name) => {
    expect(lua("loops", [name])).toContain("while i <");
  });

  test("whole numbers in an index are added up", () => {
    const code = lua("loops", ["inList"]);
    expect(code).toContain("list[i * 3 + 3]");
    expect(code).toContain("list[i + 3]");
    expect(code).toContain("list[4 - i + 1]");
  });
});
