/** One file per mistake in `bad/`, with the words in which a person hears of it. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig, readConfig } from "../../../src/config/load.js";
import { describeProblem } from "../../../src/config/problem.js";
import { badEnvironment, badFile, badFolder, SECRET, said } from "./bad-files.js";

function complaints(name: string): string[] {
  return loadConfig({ file: badFile(name), env: badEnvironment }).problems.map(describeProblem);
}

describe("a bad file", () => {
  it.each(Object.entries(said))("%s", (name, expected) => {
    expect(complaints(name)).toEqual(expected);
  });

  it("has its words in the table above", () => {
    const files = readdirSync(badFolder).map((file) => file.replace(".yaml", ""));
    expect(Object.keys(said).sort()).toEqual(files.sort());
  });

  it("is never answered with a secret of it", () => {
    const all = Object.keys(said).flatMap(complaints);
    expect(all.filter((line) => line.includes(SECRET))).toEqual([]);
  });

  it("with a million apps is refused before it is read", () => {
    const apps = Array.from({ length: 1_000_000 }, (_, i) => `application-${i}: {}`).join("\n  ");
    const folder = mkdtempSync(join(tmpdir(), "tollgate-config-"));
    const file = join(folder, "million.yaml");
    try {
      writeFileSync(file, `apps:\n  ${apps}\n`);
      const [problem] = loadConfig({ file, env: {} }).problems;
      expect(problem).toMatchObject({ path: file, reason: expect.stringMatching(/the maximum is 16777216/) });
    } finally {
      rmSync(folder, { recursive: true });
    }
  }, 60_000);

  it("with more apps than allowed names the number of them", () => {
    const apps = Array.from({ length: 100_001 }, (_, i) => `a${i}: {}`).join("\n  ");
    expect(readConfig(`apps:\n  ${apps}\n`, {}).problems.map(describeProblem)).toEqual([
      "apps: must have at most 100000 names, not 100001 (is a section)",
    ]);
  }, 60_000);

  it("that is not there is named", () => {
    const [problem] = loadConfig({ file: "/no/such/file.yaml", env: {} }).problems;
    expect(problem).toMatchObject({ path: "/no/such/file.yaml", reason: expect.stringContaining("ENOENT") });
  });

  it("is told of at most a hundred mistakes, and how many more there are", () => {
    const apps = Array.from({ length: 150 }, (_, i) => `a${i}: { burst: 0 }`).join("\n  ");
    const { problems } = readConfig(`apps:\n  ${apps}\n`, {});
    expect(problems).toHaveLength(101);
    expect(problems.at(-1)?.reason).toBe("and 50 more");
  });

  it("nested without end is refused", () => {
    const [problem] = readConfig(`apps: ${"[".repeat(100_000)}`, {}).problems;
    expect(problem).toBeDefined();
  });
});
