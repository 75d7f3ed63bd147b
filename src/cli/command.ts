/** The interface of CLI commands, their exit codes, and functions to read their arguments. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { didYouMean } from "../config/nearest.js";
import { quoted } from "../config/problem.js";

export interface Command {
  /** The output of `tollgate <name> --help`. */
  help: string;
  /** Returns the text for stdout or an Outcome. Throws UsageError for invalid arguments. */
  run(args: string[]): string | Outcome | Promise<string | Outcome>;
}

export interface Outcome {
  /** For stdout. */
  text: string;
  /** One of the codes below. */
  exitCode: number;
  /** For stderr. */
  complaint?: string | undefined;
}

export const EXIT_OK = 0;
export const EXIT_REFUSED = 1;
export const EXIT_USAGE = 2;
export const EXIT_UNREACHABLE = 3;
export const EXIT_NOT_ALLOWED = 4;
export const EXIT_UNHEALTHY = 5;

export const exitCodes: readonly [code: number, meaning: string][] = [
  [EXIT_OK, "success"],
  [EXIT_REFUSED, "refused or failed: the requested action was not performed"],
  [EXIT_USAGE, "usage error: an option or argument is missing or invalid"],
  [EXIT_UNREACHABLE, "no tollgate replied at this address, or not in time"],
  [EXIT_NOT_ALLOWED, "not allowed: the token or the client address was rejected (401, 403)"],
  [EXIT_UNHEALTHY, "the service replied but is unhealthy (health) or not in normal mode (status)"],
];

/** Ends a command with a message for stderr and an exit code. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly exitCode: number,
    /** The reply of the service, for --json. */
    readonly reply?: unknown,
  ) {
    super(message);
  }
}

/** An invalid argument. The message names the option and the reason. Exit code 2. */
export class UsageError extends Error {}

export const textOption = { type: "string" } as const;
export const flagOption = { type: "boolean", default: false } as const;

export type OptionSpecs = NonNullable<ParseArgsConfig["options"]>;
export type OptionValues<T extends OptionSpecs> = ReturnType<
  typeof parseArgs<{ args: string[]; options: T; strict: true; allowPositionals: true }>
>["values"];

/** Throws UsageError. `words` are the arguments that are not options. */
export function readArguments<T extends OptionSpecs>(
  args: string[],
  options: T,
): { values: OptionValues<T>; words: string[] } {
  try {
    const { values, positionals } = parseArgs({ args, options, strict: true, allowPositionals: true });
    return { values, words: positionals };
  } catch (error) {
    throw new UsageError(error instanceof Error ? (unknownOption(args, options) ?? error.message) : String(error));
  }
}

/** The message for the first option that does not exist; undefined if all exist. */
function unknownOption(args: string[], options: OptionSpecs): string | undefined {
  const { tokens } = parseArgs({ args, options, strict: false, allowPositionals: true, tokens: true });
  const shorts = Object.values(options).map(({ short }) => short);
  for (const token of tokens) {
    if (token.kind !== "option" || token.name in options || shorts.includes(token.name)) continue;
    const known = Object.keys(options).map((name) => `--${name}`);
    return `unknown option ${quoted(token.rawName)}${didYouMean(token.rawName, known)}`;
  }
  return undefined;
}

/** For commands that take options only. */
export function readOptions<T extends OptionSpecs>(args: string[], options: T): OptionValues<T> {
  const { values, words } = readArguments(args, options);
  expectWords(words, []);
  return values;
}

/** The arguments that are not options, by name. */
export interface Words {
  required(name: string): string;
  optional(name: string): string | undefined;
}

/** Checks the number of words. Names in brackets, such as `[APP]`, are optional. */
export function expectWords(words: readonly string[], names: readonly string[]): Words {
  const missing = names[words.length];
  if (missing !== undefined && !missing.startsWith("[")) throw new UsageError(`${missing} is missing`);
  if (words.length > names.length) throw new UsageError(`unexpected argument ${quoted(words[names.length] ?? "")}`);
  const given = new Map(words.map((word, i) => [names[i]?.replace(/^\[|\]$/g, ""), word]));
  return {
    optional: (name) => given.get(name),
    required(name) {
      const word = given.get(name);
      if (word === undefined) throw new UsageError(`${name} is missing`);
      return word;
    },
  };
}

export function readChoice<T extends string>(option: string, text: string, choices: readonly T[]): T {
  const choice = choices.find((one) => one === text);
  if (choice !== undefined) return choice;
  throw new UsageError(`${option}: unknown value ${quoted(text)}; expected ${choices.join(", ")}`);
}
