/** Results of the benchmarks: values with their budgets, as a table and as JSON. */

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
  const rows = results.map((each) => [
    each.name,
    each.value.toLocaleString("en-US", { maximumSignificantDigits: 4 }),
    each.unit,
    each.budget,
    verdict(each),
  ]);
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

export function resultsJson(results: Result[]): string {
  return `${JSON.stringify(results, null, 2)}\n`;
}

/** For docs/reference/performance.md. */
export function benchPage(results: Result[], machine: string): string {
  const rows = results.map((each) => {
    const value = each.value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
    return `| ${each.name} | ${value} | ${each.unit} | ${each.budget === noBudget.text ? "" : each.budget} | ${verdict(each)} |`;
  });
  return `Written by \`make bench\` on ${new Date().toISOString().slice(0, 10)}, on ${machine}.

| name | value | unit | budget | holds |
| --- | --- | --- | --- | --- |
${rows.join("\n")}
`;
}
