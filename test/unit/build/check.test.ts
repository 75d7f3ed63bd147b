/** The portability check: each fixture breaks one rule, and the real code breaks none. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { portabilityProblems, portableFolders } from "../../../build/check.js";
import { fromRoot } from "../../../build/paths.js";

const rules = "test/unit/build/fixtures/rules";
const problems = portabilityProblems([rules]);

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
  expect(portabilityProblems(["test/unit/build/fixtures/clean"])).toEqual([]);
});

test("the portable folders keep all rules", () => {
  expect(portabilityProblems(portableFolders)).toEqual([]);
});
