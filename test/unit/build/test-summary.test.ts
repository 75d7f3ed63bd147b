/** A test run counts only if every part of it ran. */
import { expect, test } from "vitest";
import { fromRoot } from "../../../build/paths.js";
import { NEEDS_ENVOY, needs, summarize, summarizeDeploy, type TestReport } from "../../../build/test-summary.js";

function report(...tests: [path: string, fullName: string, status?: string][]): TestReport {
  return {
    testResults: tests.map(([path, fullName, status = "passed"]) => ({
      name: fromRoot(path),
      status: status === "failed" ? "failed" : "passed",
      assertionResults: [{ fullName, status }],
    })),
  };
}

const whole: Parameters<typeof report> = [
  ["test/unit/a.test.ts", "adds"],
  ["test/integration/b.test.ts", "connects"],
  ["test/e2e/c.test.ts", "starts nginx and Envoy"],
  ["test/contract/d.test.ts", "embedded grants"],
  ["test/contract/d.test.ts", "redis grants"],
  ["test/contract/d.test.ts", "redis-cluster grants"],
  ["test/contract/d.test.ts", "prices in LuaJIT"],
];

test("a whole run has no problems", () => {
  expect(summarize(report(...whole))).toEqual({ passed: 7, failed: 0, problems: [], leftOut: 0 });
});

test.each([0, 1, 2])("a part of which nothing ran is named", (index) => {
  const part = whole[index]?.[0].split("/")[1];
  const { problems } = summarize(report(...whole.filter((_, at) => at !== index)));
  expect(problems).toContain(`no test of test/${part} passed`);
});

test.each(["nginx", "Envoy"])("a proxy that the end-to-end suite left out is named", (proxy) => {
  const others = whole.map(([path, name]) => [path, name.replace(proxy, "something")] as [string, string]);
  expect(summarize(report(...others)).problems).toEqual([`no test of test/e2e names "${proxy.toLowerCase()}"`]);
});

const withoutEnvoy: Parameters<typeof report> = [
  ...whole.filter((_, at) => at !== 2),
  ["test/e2e/c.test.ts", "starts nginx"],
  ["test/e2e/e.test.ts", `decides alike ${NEEDS_ENVOY}`, "skipped"],
];

test("without Envoy the run is not whole", () => {
  expect(summarize(report(...withoutEnvoy)).problems).toEqual([
    `test/e2e/e.test.ts: "decides alike ${NEEDS_ENVOY}" did not run (skipped)`,
    'no test of test/e2e names "envoy"',
  ]);
});

test("without Envoy only its tests may be skipped, and they are counted", () => {
  const other: Parameters<typeof report>[number] = ["test/unit/a.test.ts", "subtracts", "skipped"];
  expect(summarize(report(...withoutEnvoy), true)).toMatchObject({ problems: [], leftOut: 1 });
  expect(summarize(report(...withoutEnvoy, other), true).problems).toEqual([
    'test/unit/a.test.ts: "subtracts" did not run (skipped)',
  ]);
});

test.each([
  [3, "embedded"],
  [4, "redis"],
  [5, "redis-cluster"],
  [6, "luajit"],
])("a runtime that the contract suite left out is named", (index, runtime) => {
  const { problems } = summarize(report(...whole.filter((_, at) => at !== index)));
  expect(problems).toEqual([`no test of test/contract names "${runtime}"`]);
});

test.each(["skipped", "pending", "todo", "disabled"])("a test that is %s is named", (status) => {
  const { problems } = summarize(report(...whole, ["test/unit/a.test.ts", "subtracts", status]));
  expect(problems).toEqual([`test/unit/a.test.ts: "subtracts" did not run (${status})`]);
});

test("a failed test counts as failed, and so does a file that did not load", () => {
  const broken = report(...whole, ["test/unit/a.test.ts", "divides", "failed"]);
  broken.testResults.push({ name: fromRoot("test/unit/z.test.ts"), status: "failed", assertionResults: [] });
  expect(summarize(broken)).toEqual({
    passed: 7,
    failed: 2,
    problems: ["test/unit/z.test.ts failed outside of its tests"],
    leftOut: 0,
  });
});

const deploy: Parameters<typeof report>[number] = ["test/deploy/a.test.ts", "the chart is accepted"];
const skippedFor = (missing: string): Parameters<typeof report>[number] => [
  "test/deploy/b.test.ts",
  `the images ${needs(missing)} start`,
  "skipped",
];

test("tests of the deployment may be skipped for what the machine does not have, which is named", () => {
  const { problems, leftOut, skipped } = summarizeDeploy(
    report(deploy, skippedFor("make deploy-tools"), skippedFor("containers"), skippedFor("containers")),
  );
  expect({ problems, leftOut }).toEqual({ problems: [], leftOut: 3 });
  expect([...skipped]).toEqual([
    ["make deploy-tools", new Set(["the images"])],
    ["containers", new Set(["the images"])],
  ]);
});

test.each(["Helm and the linters", "Envoy"])("tests of the deployment must not be skipped for %s", (missing) => {
  expect(summarizeDeploy(report(deploy, skippedFor(missing))).problems).toEqual([
    `test/deploy/b.test.ts: "the images ${needs(missing)} start" did not run (skipped)`,
  ]);
  expect(summarizeDeploy(report(deploy, skippedFor("Envoy")), true).problems).toEqual([]);
});

test("a run without a test of the deployment has a problem", () => {
  expect(summarizeDeploy(report()).problems).toEqual(["no test of test/deploy passed"]);
});
