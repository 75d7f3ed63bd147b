/** What every command of the CLI is: a name, help with an example, and a function from arguments to the text to print. */
import { type ParseArgsConfig, parseArgs } from "node:util";

export interface Command {
  name: string;
  /** One line for the list of commands. */
  summary: string;
  /** Everything `tollgate <name> --help` prints. */
  help: string;
  /** The text for stdout, and more where that is not all. Throws UsageError where the arguments are wrong. */
  run(args: string[]): string | Outcome | Promise<string | Outcome>;
}

/** What a command leaves behind when there is an answer, but not a good one. */
export interface Outcome {
  /** For stdout. */
  text: string;
  /** One of exit-codes.ts. */
  exitCode: number;
  /** For stderr. */
  complaint?: string;
}

/** The caller's mistake: its message names the option and the reason. Exit code 2. */
export class UsageError extends Error {}

export type OptionSpecs = NonNullable<ParseArgsConfig["options"]>;
type OptionValues<T extends OptionSpecs> = ReturnType<
  typeof parseArgs<{ args: string[]; options: T; strict: true; allowPositionals: false }>
>["values"];

/** Options as node:util reads them; what it refuses becomes a UsageError. */
export function readOptions<T extends OptionSpecs>(args: string[], options: T): OptionValues<T> {
  try {
    return parseArgs({ args, options, strict: true, allowPositionals: false }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

type ArgumentValues<T extends OptionSpecs> = ReturnType<
  typeof parseArgs<{ args: string[]; options: T; strict: true; allowPositionals: true }>
>["values"];

export interface Arguments<T extends OptionSpecs> {
  values: ArgumentValues<T>;
  /** What is no option. */
  words: string[];
}

/** Options and words; what node:util refuses becomes a UsageError. */
export function readArguments<T extends OptionSpecs>(args: string[], options: T): Arguments<T> {
  try {
    const { values, positionals } = parseArgs({ args, options, strict: true, allowPositionals: true });
    return { values, words: positionals };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

/** Rows as columns: the first to the left, the others to the right. */
export function table(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
  return `${lines.join("\n")}\n`;
}
