/** Functions of one expression: written out where that changes nothing, called where it would. */
import { describe, expect, test } from "vitest";
import { flattenToLua } from "../../../build/lua.js";
import { answers, show } from "../../support/lua-answers.js";
import * as kept from "./fixtures/inline/kept.js";
import { often } from "./fixtures/inline/often.js";
import * as writtenOut from "./fixtures/inline/written-out.js";

const folder = "test/unit/build/fixtures/inline";
const targets = ["5.1", "JIT"] as const;
const numbers = [-3, -1, 0, 1, 2, 5, 99.5, 250];
const pairs = numbers.flatMap((a) => [-2, 0, 1, 7].map((b): [number, number] => [a, b]));

function lua(name: string, target: (typeof targets)[number] = "5.1", exports?: string[]): string {
  const entry = `${folder}/${name}.ts`;
  return flattenToLua({ entry, folders: [folder], target, ...(exports && { exports }) }).code;
}

function isDeclared(name: string, code: string): boolean {
  return code.includes(`local function ${name}(`);
}

describe.each(targets)("compiled for %s", (target) => {
  test.each(Object.entries(writtenOut))("%s answers as in Node", (name, run) => {
    const inNode = pairs.map(([a, b]) => show(run(a, b)));
    expect(
      answers(
        lua("written-out", target),
        pairs.map((pair) => [name, pair]),
      ),
    ).toEqual(inNode);
  });

  test.each(Object.entries(kept))("%s answers as in Node", (name, run) => {
    const inNode = numbers.map((a) => show(run(a)));
    expect(
      answers(
        lua("kept", target),
        numbers.map((a) => [name, [a]]),
      ),
    ).toEqual(inNode);
  });
});

describe("written out", () => {
  test.each([
    "within",
    "difference",
    "twice",
    "twiceAndMore",
    "pair",
    "single",
    "isToll",
    "named",
    "steps",
    "fill",
    "half",
    "text",
  ])("%s leaves no function", (name) => {
    expect(isDeclared(name, lua("written-out"))).toBe(false);
  });

  test("what such a function needs is still there, before it is used", () => {
    const code = lua("written-out");
    expect(isDeclared("rounded", code)).toBe(true);
    expect(code.indexOf("local function rounded(")).toBeLessThan(code.indexOf("return rounded("));
    expect(isDeclared("next", code)).toBe(true);
  });

  test("the Lua is the plain expression", () => {
    const code = lua("written-out");
    expect(code).toContain("return not (list[i + 1] >= 0 and list[i + 1] <= 100) or a + 1 >= 0 and a + 1 <= b");
    expect(code).toContain('local list = {a, "x", 100}');
    expect(code).toContain("return {level = a * 2, limit = b}");
    expect(code).toContain("boxes.inner.level = math.min(boxes.inner.level + b, boxes.inner.limit)");
  });
});

describe("kept as a call", () => {
  test.each([
    ["actsTwice", "square"],
    ["actsSometimes", "unlessZero"],
    ["readsBefore", "plusLevel"],
    ["readsAfter", "nextAndMore"],
    ["actTogether", "minus"],
    ["actsLate", "reversed"],
    ["actsNever", "first"],
    ["worksThrice", "cube"],
    ["actsWithin", "square"],
    ["recursive", "countdown"],
    ["asValue", "doubled"],
    ["shadowed", "callsOuter"],
    ["statement", "asStatement"],
    ["narrowed", "known"],
    ["closure", "both"],
    ["predicate", "isLow"],
    ["leftOut", "isComplete"],
    ["returned", "setLevel"],
    ["actsSometimesWithin", "unlessZero"],
    ["severalLines", "lines"],
  ])("%s calls %s", (name, callee) => {
    const code = lua("kept", "5.1", [name]);
    expect(isDeclared(callee, code)).toBe(true);
    expect(code.split(`${callee}(`).length).toBeGreaterThan(2);
  });

  test("the outer of two calls may go although the inner stays", () => {
    expect(isDeclared("indirectly", lua("kept", "5.1", ["actsWithin"]))).toBe(false);
    expect(isDeclared("later", lua("kept", "5.1", ["actsSometimesWithin"]))).toBe(false);
  });

  test("a function that calls itself, or whose argument may be left out, is written out nowhere", () => {
    expect(lua("kept", "5.1", ["recursive"])).toContain("return countdown(a)\n");
    expect(lua("kept", "5.1", ["leftOut"])).toContain("isComplete(a, 5)");
  });

  test("an export stays, and is called", () => {
    expect(lua("kept", "5.1", ["exported", "callsExported"])).toContain("return exported(a) * 2");
    expect(lua("kept", "5.1", ["callsExported"])).toContain("return (a + 5) * 2");
  });
});

test("a message names the line in the source, also below a call that was written out", () => {
  expect(() => lua("lua-error")).toThrow(/lua-error\.ts:12: /);
});

describe("functions of Lua's library", () => {
  test("get a local when they are called often, and only calls go through it", () => {
    const code = lua("often");
    expect(code.startsWith("local math_max = math.max\n")).toBe(true);
    expect(code.split("math_max(").length - 1).toBe(6);
    expect(code).toContain('"math.max(1, 2)"');
    expect(code).toContain("math.min(a, 1)");
    expect(
      answers(
        code,
        numbers.map((a) => ["often", [a]]),
      ),
    ).toEqual(numbers.map((a) => show(often(a))));
  });

  test("keep their name when the local's is taken", () => {
    expect(lua("taken-name")).not.toContain("local math_max = math.max");
  });
});
