/** Summarises a test run: how many tests passed, and which parts of the suite did not run. */
import { existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { shown } from "./paths.js";

/** Marks the name of a test that was skipped because Envoy is not available; see test/support/envoy-binary.ts. */
export const NEEDS_ENVOY = needs("Envoy");

/** Marks the name of a test of test/deploy that was skipped because something is missing; see test/deploy/support/needs.ts. */
export function needs(missing: string): string {
  return `(needs ${missing})`;
}

/** What takes too long for every run, or what the machine may not allow. Tests that need it may be skipped; they are named. */
const OPTIONAL = [
  "make test-deploy",
  "make deploy-tools",
  "terraform",
  "containers",
  "mount namespaces",
  "build/ensure-arm64.sh",
];

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

export interface DeploySummary extends TestSummary {
  /** What was missing → the parts that were skipped for it. */
  skipped: Map<string, Set<string>>;
}

/** A summary of the tests of test/deploy: all must have run, except those whose needs are optional. `leftOut` counts these. */
export function summarizeDeploy(report: TestReport, withoutEnvoy = false): DeploySummary {
  const allowed = withoutEnvoy ? [...OPTIONAL, "Envoy"] : OPTIONAL;
  const skipped = new Map<string, Set<string>>();
  const summary: TestSummary = { passed: 0, failed: 0, problems: [], leftOut: 0 };
  for (const { path, fullName, status } of outcomes(report, summary)) {
    const missing = allowed.find((each) => fullName.includes(needs(each)));
    if (missing === undefined) summary.problems.push(`${path}: "${fullName}" did not run (${status})`);
    else {
      summary.leftOut++;
      const parts = skipped.get(missing) ?? new Set();
      skipped.set(missing, parts.add(fullName.slice(0, fullName.indexOf(` ${needs(missing)}`))));
    }
  }
  if (summary.passed === 0) summary.problems.push("no test of test/deploy passed");
  return { ...summary, skipped };
}

/** Counts what passed and failed, and yields the tests that did not run. */
function* outcomes(report: TestReport, summary: TestSummary, onPassed?: (path: string, fullName: string) => void) {
  for (const file of report.testResults) {
    const path = shown(file.name);
    if (file.status === "failed" && !file.assertionResults.some(({ status }) => status === "failed")) {
      summary.failed++;
      summary.problems.push(`${path} failed outside of its tests`);
    }
    for (const { status, fullName } of file.assertionResults) {
      if (status === "passed") {
        summary.passed++;
        onPassed?.(path, fullName);
      } else if (status === "failed") summary.failed++;
      else yield { path, fullName, status };
    }
  }
}

const parts = ["unit", "contract", "integration", "e2e"];
/** The contract suite must have run on each of these. */
const runtimes = ["embedded", "redis", "redis-cluster", "luajit"];
/** The end-to-end suite must have run with each of these proxies. */
const proxies = ["nginx", "envoy"];

/** @param withoutEnvoy tests of Envoy may be skipped */
export function summarize(report: TestReport, withoutEnvoy = false): TestSummary {
  const summary: TestSummary = { passed: 0, failed: 0, problems: [], leftOut: 0 };
  const { problems } = summary;
  const passedNames = new Map<string, string[]>(parts.map((part) => [part, []]));
  const keep = (path: string, fullName: string) => passedNames.get(path.split("/")[1] ?? "")?.push(fullName);
  for (const { path, fullName, status } of outcomes(report, summary, keep)) {
    if (withoutEnvoy && fullName.includes(NEEDS_ENVOY)) summary.leftOut++;
    else problems.push(`${path}: "${fullName}" did not run (${status})`);
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
  return summary;
}

/** Undefined if the tests did not run. */
function read(path: string): TestReport | undefined {
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as TestReport) : undefined;
}

const didNotRun = (path: string): TestSummary => ({
  passed: 0,
  failed: 1,
  problems: [`${path} is missing: the tests did not run`],
  leftOut: 0,
});

/** @param deployPath the report of `make test-deploy`, if it was to run */
function main(path: string, deployPath: string | undefined): number {
  const withoutEnvoy = process.env.TOLLGATE_WITHOUT_ENVOY === "1";
  const report = read(path);
  const own = report === undefined ? didNotRun(path) : summarize(report, withoutEnvoy);
  const summaries = [own];
  if (withoutEnvoy) console.error(`*** TOLLGATE_WITHOUT_ENVOY=1: ${own.leftOut} tests that need Envoy were skipped`);
  if (deployPath === undefined) console.error("*** TOLLGATE_DEPLOY=none: the tests of the deployment did not run");
  else {
    const deployReport = read(deployPath);
    if (deployReport === undefined) summaries.push(didNotRun(deployPath));
    else {
      const deploy = summarizeDeploy(deployReport, withoutEnvoy);
      summaries.push(deploy);
      if (deploy.leftOut > 0) console.error(`*** ${deploy.leftOut} tests of the deployment were skipped:`);
      for (const [missing, parts] of deploy.skipped)
        console.error(`***   because they need ${missing}: ${[...parts].join(", ")}`);
    }
  }
  for (const problem of summaries.flatMap(({ problems }) => problems)) console.error(problem);
  const sum = (field: "passed" | "failed") => summaries.reduce((total, summary) => total + summary[field], 0);
  console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
  return summaries.every(({ failed, problems }) => failed === 0 && problems.length === 0) ? 0 : 1;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  process.exitCode = main(process.argv[2] ?? "test-results.json", process.argv[3]);
}
