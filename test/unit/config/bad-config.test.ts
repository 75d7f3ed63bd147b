/** Invalid files in `bad/`, one per problem, with the expected messages. */
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

describe("an invalid file", () => {
  it.each(Object.entries(said))("%s", (name, expected) => {
    expect(complaints(name)).toEqual(expected);
  });

  it("is in the table of expected messages", () => {
    const files = readdirSync(badFolder).map((file) => file.replace(".yaml", ""));
    expect(Object.keys(said).sort()).toEqual(files.sort());
  });

  it("is reported without its secrets", () => {
    const all = Object.keys(said).flatMap(complaints);
    expect(all.filter((line) => line.includes(SECRET))).toEqual([]);
  });

  it("that is too large is rejected before it is parsed", () => {
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
  });

  it("with too many apps is reported with their number", () => {
    const apps = Array.from({ length: 100_001 }, (_, i) => `a${i}: {}`).join("\n  ");
    expect(readConfig(`apps:\n  ${apps}\n`, {}).problems.map(describeProblem)).toEqual([
      "apps: must have at most 100000 names, not 100001 (is a section)",
    ]);
  });

  it("that does not exist is reported", () => {
    const [problem] = loadConfig({ file: "/no/such/file.yaml", env: {} }).problems;
    expect(problem).toMatchObject({ path: "/no/such/file.yaml", reason: expect.stringContaining("ENOENT") });
  });

  it("is reported with at most a hundred problems and the number of the others", () => {
    const apps = Array.from({ length: 150 }, (_, i) => `a${i}: { burst: 0 }`).join("\n  ");
    const { problems } = readConfig(`apps:\n  ${apps}\n`, {});
    expect(problems).toHaveLength(101);
    expect(problems.at(-1)?.reason).toBe("and 50 more");
  });

  it("that is nested too deeply is rejected", () => {
    const [problem] = readConfig(`apps: ${"[".repeat(100_000)}`, {}).problems;
    expect(problem).toBeDefined();
  });
});
