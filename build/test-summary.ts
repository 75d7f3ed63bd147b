/** Says what a test run proved: how many tests passed, and what of the promised suite did not run at all. */
import { existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { shown } from "./paths.js";

/** What is used of vitest's JSON report. */
export interface TestReport {
  testResults: {
    /** The absolute path of the test file. */
    name: string;
    status: string;
    assertionResults: { status: string; fullName: string }[];
  }[];
}

export interface TestSummary {
  passed: number;
  failed: number;
  problems: string[];
}

const parts = ["unit", "contract", "integration", "e2e"];
/** The contract suite must have run in each of these. */
const runtimes = ["embedded", "redis", "redis-cluster", "luajit"];

export function summarize(report: TestReport): TestSummary {
  const problems: string[] = [];
  const passedNames = new Map<string, string[]>(parts.map((part) => [part, []]));
  let passed = 0;
  let failed = 0;
  for (const file of report.testResults) {
    const path = shown(file.name);
    if (file.status === "failed" && !file.assertionResults.some(({ status }) => status === "failed")) {
      failed++;
      problems.push(`${path} failed outside of its tests`);
    }
    for (const { status, fullName } of file.assertionResults) {
      if (status === "passed") {
        passed++;
        passedNames.get(path.split("/")[1] ?? "")?.push(fullName);
      } else if (status === "failed") failed++;
      else problems.push(`${path}: "${fullName}" did not run (${status})`);
    }
  }
  for (const [part, names] of passedNames) {
    if (names.length === 0) problems.push(`no test of test/${part} passed`);
  }
  for (const runtime of runtimes) {
    // A whole word, so that "redis-cluster" does not count as "redis".
    const word = new RegExp(`(?<![\\w-])${runtime}(?![\\w-])`, "i");
    if (!passedNames.get("contract")?.some((name) => word.test(name))) {
      problems.push(`no test of test/contract names "${runtime}"`);
    }
  }
  return { passed, failed, problems };
}

function main(path: string): number {
  if (!existsSync(path)) {
    console.error(`${path} is missing: the tests did not run`);
    console.log("0 passed, 1 failed");
    return 1;
  }
  const { passed, failed, problems } = summarize(JSON.parse(readFileSync(path, "utf8")) as TestReport);
  for (const problem of problems) console.error(problem);
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && problems.length === 0 ? 0 : 1;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  process.exitCode = main(process.argv[2] ?? "test-results.json");
}
