/** Results of the benchmarks: values with their budgets, as a table, as JSON and as a part of docs/reference/performance.md. */

/** One value. Without a budget, `budget` is "none" and `holds` is true. */
export interface Result {
  name: string;
  value: number;
  unit: string;
  budget: string;
  holds: boolean;
}

export interface Budget {
  text: string;
  holds(value: number): boolean;
}

/** For values that are only informative. */
export const noBudget: Budget = { text: "none", holds: () => true };

export function atLeast(least: number): Budget {
  return { text: `>= ${least}`, holds: (value) => value >= least };
}

export function atMost(most: number): Budget {
  return { text: `<= ${most}`, holds: (value) => value <= most };
}

export function below(limit: number): Budget {
  return { text: `< ${limit}`, holds: (value) => value < limit };
}

/** Throws when the value could not be measured (NaN, infinite). */
export function result(name: string, value: number, unit: string, budget: Budget): Result {
  if (!Number.isFinite(value)) throw new Error(`${name}: measured ${value}`);
  const rounded = Number(value.toPrecision(4));
  return { name, value: rounded, unit, budget: budget.text, holds: budget.holds(value) };
}

export function resultsTable(results: Result[]): string {
  const rows = results.map((each) => [each.name, amount(each.value), each.unit, each.budget, verdict(each)]);
  const all = [["name", "value", "unit", "budget", "holds"], ...rows];
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  const line = (row: string[]) =>
    row
      // Numbers are aligned to the right.
      .map((cell, column) => (column === 1 ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!)))
      .join("  ")
      .trimEnd();
  const [head, ...body] = all;
  return [line(head!), widths.map((width) => "-".repeat(width)).join("  "), ...body.map(line)].join("\n");
}

function verdict(each: Result): string {
  if (each.budget === noBudget.text) return "";
  return each.holds ? "yes" : "NO";
}

/** The last run of one benchmark. */
export interface Run {
  date: string;
  machine: string;
  /** Of Tollgate. */
  version: string;
  results: Result[];
}

/** The last run of each benchmark, by its name. `bench/results.json` is committed, so that a run of one keeps the others. */
export type Runs = Record<string, Run>;

/** With the runs in the order of `names`; those of benchmarks that no longer exist are dropped. */
export function withRun(runs: Runs, name: string, run: Run, names: readonly string[]): Runs {
  const all: Runs = { ...runs, [name]: run };
  return Object.fromEntries(names.flatMap((each) => (all[each] === undefined ? [] : [[each, all[each]]])));
}

export function runsJson(runs: Runs): string {
  return `${JSON.stringify(runs, null, 2)}\n`;
}

const amount = (value: number) => value.toLocaleString("en-US", { maximumSignificantDigits: 4 });

/** For docs/reference/performance.md: missed budgets and missing measurements first. */
export function benchPage(runs: Runs, names: readonly string[]): string {
  const missed = Object.entries(runs).flatMap(([name, { results }]) =>
    results
      .filter(({ holds }) => !holds)
      .map((each) => `| [${name}](#${name}) | ${each.name} | ${amount(each.value)} ${each.unit} | ${each.budget} |`),
  );
  const missing = names.filter((name) => runs[name] === undefined);
  return [
    "`make bench` writes this part, and `make bench ONLY=name` one section of it. A budget is a goal of the project.",
    "### Missed budgets",
    missed.length === 0
      ? "None."
      : ["| benchmark | measure | value | budget |", "| --- | --- | --- | --- |", ...missed].join("\n"),
    ...(missing.length === 0 ? [] : [`Not measured: ${missing.join(", ")}.`]),
    ...Object.entries(runs).flatMap(([name, run]) => section(name, run)),
  ].join("\n\n");
}

function section(name: string, { date, machine, version, results }: Run): string[] {
  const rows = results.map(
    (each) =>
      `| ${each.name} | ${amount(each.value)} | ${each.unit} | ${each.budget === noBudget.text ? "" : each.budget} | ${verdict(each)} |`,
  );
  return [
    `### ${name}`,
    `${date}, ${version}, on ${machine}.`,
    ["| measure | value | unit | budget | holds |", "| --- | --- | --- | --- | --- |", ...rows].join("\n"),
  ];
}
