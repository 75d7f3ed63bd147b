/** What a measurement came to: its budget, the table people read, and the JSON that programs read. */

/** One value. Unless it has a budget to keep, `budget` is "none" and it holds. */
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

/** Informational: worth knowing, but nothing depends on it. */
export const noBudget: Budget = { text: "none", holds: () => true };

export function atLeast(least: number): Budget {
  return { text: `>= ${least}`, holds: (value) => value >= least };
}

export function below(limit: number): Budget {
  return { text: `< ${limit}`, holds: (value) => value < limit };
}

/** A value that could not be measured (NaN, infinite) keeps no budget, and is an error without one. */
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
      // Numbers line up at the right.
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
