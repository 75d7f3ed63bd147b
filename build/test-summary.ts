/** Summarises a test run: how many tests passed, and which parts of the suite did not run. */
import { existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { shown } from "./paths.js";

/** Marks the name of a test that was skipped because Envoy is not available; see test/support/envoy-binary.ts. */
export const NEEDS_ENVOY = "(needs Envoy)";

/** The fields used of vitest's JSON report. */
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
  /** Tests that were skipped on purpose. */
  leftOut: number;
}

const parts = ["unit", "contract", "integration", "e2e"];
/** The contract suite must have run on each of these. */
const runtimes = ["embedded", "redis", "redis-cluster", "luajit"];
/** The end-to-end suite must have run with each of these proxies. */
const proxies = ["nginx", "envoy"];

/** @param withoutEnvoy tests of Envoy may be skipped */
export function summarize(report: TestReport, withoutEnvoy = false): TestSummary {
  const problems: string[] = [];
  const passedNames = new Map<string, string[]>(parts.map((part) => [part, []]));
  let passed = 0;
  let failed = 0;
  let leftOut = 0;
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
      else if (withoutEnvoy && fullName.includes(NEEDS_ENVOY)) leftOut++;
      else problems.push(`${path}: "${fullName}" did not run (${status})`);
    }
  }
  for (const [part, names] of passedNames) {
    if (names.length === 0) problems.push(`no test of test/${part} passed`);
  }
  const mustName = (part: string, what: string) => {
    // A whole word, so that "redis-cluster" does not count as "redis".
    const word = new RegExp(`(?<![\\w-])${what}(?![\\w-])`, "i");
    if (!passedNames.get(part)?.some((name) => word.test(name))) {
      problems.push(`no test of test/${part} names "${what}"`);
    }
  };
  for (const runtime of runtimes) mustName("contract", runtime);
  for (const proxy of proxies) if (proxy !== "envoy" || !withoutEnvoy) mustName("e2e", proxy);
  return { passed, failed, problems, leftOut };
}

function main(path: string): number {
  if (!existsSync(path)) {
    console.error(`${path} is missing: the tests did not run`);
    console.log("0 passed, 1 failed");
    return 1;
  }
  const report = JSON.parse(readFileSync(path, "utf8")) as TestReport;
  const withoutEnvoy = process.env.TOLLGATE_WITHOUT_ENVOY === "1";
  const { passed, failed, problems, leftOut } = summarize(report, withoutEnvoy);
  for (const problem of problems) console.error(problem);
  if (withoutEnvoy) console.error(`*** TOLLGATE_WITHOUT_ENVOY=1: ${leftOut} tests that need Envoy were skipped`);
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && problems.length === 0 ? 0 : 1;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  process.exitCode = main(process.argv[2] ?? "test-results.json");
}
