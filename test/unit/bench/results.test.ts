/** The bench judges its values by their budgets, and tells people and programs the same. */
import { describe, expect, test } from "vitest";
import {
  atLeast,
  below,
  benchPage,
  noBudget,
  type Run,
  result,
  resultsTable,
  runsJson,
  withRun,
} from "../../../bench/results.js";
import { alternate, median } from "../../../bench/rounds.js";

describe("a result", () => {
  test("holds at the edge of its budget, and not beyond it", () => {
    expect(result("ratio", 0.85, "", atLeast(0.85)).holds).toBe(true);
    expect(result("ratio", 0.8499, "", atLeast(0.85)).holds).toBe(false);
    expect(result("ns", 999, "ns", below(1000)).holds).toBe(true);
    expect(result("ns", 1000, "ns", below(1000)).holds).toBe(false);
  });

  test("is judged before it is rounded", () => {
    expect(result("ratio", 0.849999, "", atLeast(0.85))).toMatchObject({ value: 0.85, holds: false });
  });

  test("without a budget holds and says so", () => {
    expect(result("count", 9, "commands", noBudget)).toMatchObject({ budget: "none", holds: true });
  });

  test("that was not measured is an error", () => {
    expect(() => result("ratio", Number.NaN, "", noBudget)).toThrow("ratio: measured NaN");
    expect(() => result("ratio", 1 / 0, "", atLeast(1))).toThrow("Infinity");
  });
});

describe("what is written", () => {
  const results = [
    result("grant-script", 0.5, "ratio", atLeast(0.85)),
    result("embedded-grants", 49423.7, "grants/s", noBudget),
    result("l3-take-node", 2.7, "ns", below(1000)),
  ];

  test("the table lines up and names every budget that fails", () => {
    expect(resultsTable(results).split("\n")).toEqual([
      "name              value  unit      budget   holds",
      "---------------  ------  --------  -------  -----",
      "grant-script        0.5  ratio     >= 0.85  NO",
      "embedded-grants  49,420  grants/s  none",
      "l3-take-node        2.7  ns        < 1000   yes",
    ]);
  });

  const run = (date: string): Run => ({ date, machine: "2 cores", version: "commit abc", results });

  test("a run replaces that of the same benchmark and keeps the others, in a fixed order", () => {
    const before = { grant: run("2026-01-01"), old: run("2026-01-01"), nginx: run("2026-01-01") };
    const runs = withRun(before, "nginx", run("2026-02-02"), ["nginx", "grant", "envoy"]);
    expect(Object.entries(runs).map(([name, { date }]) => [name, date])).toEqual([
      ["nginx", "2026-02-02"],
      ["grant", "2026-01-01"],
    ]);
    expect(JSON.parse(runsJson(runs))).toEqual(runs);
  });

  test("the page begins with missed budgets and names what was not measured", () => {
    const page = benchPage({ grant: run("2026-01-01") }, ["grant", "nginx"]);
    expect(page.indexOf("| [grant](#grant) | grant-script | 0.5 ratio | >= 0.85 |")).toBeGreaterThan(0);
    expect(page.indexOf("grant-script")).toBeLessThan(page.indexOf("### grant"));
    expect(page).toContain("Not measured: nginx.");
    expect(page).toContain("2026-01-01, commit abc, on 2 cores.");
    expect(page).toContain("| embedded-grants | 49,420 | grants/s |  |  |");
    expect(benchPage({}, [])).toContain("### Missed budgets\n\nNone.");
  });
});

describe("rounds", () => {
  test("alternate, and the first of each side only warms up", async () => {
    const order: string[] = [];
    const side = (name: string) => () => order.push(name);
    const pairs = await alternate(2, side("a"), side("b"));
    expect(order).toEqual(["a", "b", "a", "b", "a", "b"]);
    expect(pairs).toEqual([
      [3, 4],
      [5, 6],
    ]);
  });

  test("the median is the middle, or between the two middle ones", () => {
    expect(median([5, 1, 3])).toBe(3);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(() => median([])).toThrow("no values");
  });
});
