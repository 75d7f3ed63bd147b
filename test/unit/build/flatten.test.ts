/** The flattener turns modules into one program: what it keeps, in which order, and what it refuses. */
import { describe, expect, test } from "vitest";
import { flatten } from "../../../build/flatten.js";
import { flattenToLua } from "../../../build/lua.js";

const folder = "test/unit/build/fixtures/flatten";

function flat(name: string, exports?: string[]) {
  return flatten({ entry: `${folder}/${name}.ts`, folders: [folder], ...(exports && { exports }) });
}

function lua(name: string, exports?: string[]) {
  return flattenToLua({ entry: `${folder}/${name}.ts`, folders: [folder], target: "5.1", ...(exports && { exports }) });
}

describe("what is kept", () => {
  test("callees come before callers, across modules and within one", () => {
    const { code } = lua("toll", ["toll"]);
    const order = ["clamp", "wholeText", "above", "toll"].map((name) => code.indexOf(`local function ${name}(`));
    expect(order.every((at) => at >= 0)).toBe(true);
    expect(order.toSorted((a, b) => a - b)).toEqual(order);
  });

  test("only what the chosen exports reach", () => {
    const { code } = lua("toll", ["toll"]);
    expect(code).not.toContain("unused");
    expect(lua("toll").code).toContain("local function unusedByToll(");
    expect(lua("toll").code).not.toContain("unusedAnywhere");
  });

  test("a value of which only the type is used leaves no Lua", () => {
    expect(flat("toll").text).toContain("const kinds");
    expect(lua("toll").code).not.toContain("kinds");
  });

  test("Lua's side of the host takes the place of JavaScript's", () => {
    const { code } = lua("toll");
    expect(code).toContain('string.format("%.0f", value)');
    expect(code).toContain("-- src/core/platform-lua.ts");
  });

  test("no modules are left: no require, no table of exports, functions are plain locals", () => {
    for (const name of ["toll", "re-export", "recursion"]) {
      const { code } = lua(name);
      expect(code).not.toMatch(/require|____exports/);
    }
  });

  test("an entry may list what others declare", () => {
    const { code, exports } = lua("re-export");
    expect(exports).toEqual(["clamp", "LIMIT"]);
    expect(code).toContain("local LIMIT = 4 * 256");
    expect(code).toMatch(/return \{\n {4}clamp = clamp,\n {4}LIMIT = LIMIT,\n\}\n$/);
  });

  test("the caller may write the ending", () => {
    const { code } = flattenToLua({
      entry: `${folder}/recursion.ts`,
      folders: [folder],
      target: "5.1",
      ending: "return isEven(tonumber(ARGV[1]))",
    });
    expect(code.endsWith("\nreturn isEven(tonumber(ARGV[1]))\n")).toBe(true);
  });
});

describe("what a reader of the Lua finds", () => {
  test("each module is headed by its name and its constants, and by nothing of its machine", () => {
    const { code } = lua("toll", ["toll"]);
    expect(code).toContain(
      `-- ${folder}/numbers.ts\n--   LIMIT = 1024\n--   DEBT = -1\n--   BASE = 10.5\nlocal function clamp`,
    );
    expect(code).not.toContain(process.cwd());
  });

  test("doc comments stay with their functions; the first line of a file is not one of them", () => {
    const { code } = lua("toll", ["toll"]);
    expect(code).toContain("--- The toll for a weight.\nlocal function toll(weight)");
    expect(code).not.toContain("A small program");
  });
});

describe("constants", () => {
  test("are written out where they are used, and not declared", () => {
    const { code } = lua("toll", ["toll"]);
    expect(code).toContain("math.min(value, 1024)");
    expect(code).toContain('"toll" .. ":"');
    expect(code).not.toMatch(/local (LIMIT|DEBT|BASE|GREETING)/);
  });

  test("keep a negative number apart from the minus before it, which would begin a comment", () => {
    expect(lua("toll", ["toll"]).code).toContain("weight - -1 + 10.5");
    expect(lua("numbers", ["credit"]).code).toMatch(/return -\(-1\)\n/);
  });

  test("keep their name in a shorthand property", () => {
    expect(lua("toll", ["toll"]).code).toContain("LIMIT = 1024,");
  });
});

describe("what is refused, by file and line", () => {
  test.each([
    ["clash", /clash-other\.ts:6: "clamp" is also declared in .*numbers\.ts:9|numbers\.ts:9: .* clash-other\.ts:6/],
    ["renames", /renames\.ts:2: "clamp" is renamed to "squeeze"/],
    ["namespace-import", /namespace-import\.ts:2: import by name/],
    ["default-export", /default-export\.ts:2: only functions, constants and types/],
    ["statement", /statement\.ts:6: only functions, constants and types/],
    [
      "outside",
      /outside\.ts:2: imports ".*src\/store\/errors\.js", which lies outside src\/core, src\/scripts, test\//,
    ],
    ["re-exporter", /re-export\.ts:2: only the entry of a program may re-export/],
    [
      "circle",
      /circle-back\.ts:2: modules import each other in a circle: .*circle\.ts → .*circle-back\.ts → .*circle\.ts/,
    ],
    ["type-error", /type-error\.ts:3: Type 'number' is not assignable to type 'string'/],
    ["lua-error", /lua-error\.ts:5: /],
    ["needs-helper", /needs-helper\.ts: needs TypeScriptToLua's helpers .*SparseArray/],
    ["missing", /missing\.ts: there is no such file/],
  ])("%s", (name, message) => {
    expect(() => lua(name)).toThrow(message);
  });

  test("a name that the entry does not export", () => {
    expect(() => lua("toll", ["above"])).toThrow(/toll\.ts: does not export "above"/);
  });

  test("helpers may be allowed for programs that are not scripts", () => {
    const { code } = flattenToLua({
      entry: `${folder}/needs-helper.ts`,
      folders: [folder],
      target: "JIT",
      allowHelpers: true,
    });
    expect(code).toContain("local function copied(");
  });
});
