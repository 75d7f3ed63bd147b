/** The check keeps core and scripts portable: each fixture breaks one rule, and the real rooms break none. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { checkRooms, portableRooms } from "../../../build/check.js";
import { fromRoot } from "../../../build/paths.js";

const rules = "test/unit/build/fixtures/rules";
const problems = checkRooms([{ folder: rules, mayImport: [rules, "src/core"] }]);

/** What a fixture expects: in a line that ends in `// !! part of the message`, that message. */
function expectations(file: string): { line: number; part: string }[] {
  const lines = readFileSync(fromRoot(`${rules}/${file}`), "utf8").split("\n");
  return lines.flatMap((text, index) =>
    text
      .split(" // !! ")
      .slice(1)
      .map((part) => ({ line: index + 1, part })),
  );
}

describe("a file that breaks a rule is named with its line and the reason", () => {
  test.each(readdirSync(fromRoot(rules)))("%s", (file) => {
    const found = problems.filter((problem) => problem.startsWith(`${rules}/${file}:`));
    const expected = expectations(file);
    expect(expected.length).toBeGreaterThan(0);
    expect(found, found.join("\n")).toHaveLength(expected.length);
    for (const { line, part } of expected) {
      const here = found.filter((problem) => problem.startsWith(`${rules}/${file}:${line}: `));
      expect(here.join("\n")).toContain(part);
    }
  });
});

test("a file that keeps all rules passes", () => {
  const clean = "test/unit/build/fixtures/clean";
  expect(checkRooms([{ folder: clean, mayImport: [clean, "src/core"] }])).toEqual([]);
});

test("core and scripts keep all rules", () => {
  expect(checkRooms(portableRooms)).toEqual([]);
});

test("core may not import from scripts, scripts may import from core", () => {
  expect(portableRooms.find(({ folder }) => folder === "src/core")?.mayImport).not.toContain("src/scripts");
  const stricter = checkRooms([{ folder: "src/scripts", mayImport: ["src/scripts"] }]);
  expect(
    stricter.some((problem) => /imports src\/core\/.* but src\/scripts may import only src\/scripts/.test(problem)),
  ).toBe(true);
});
