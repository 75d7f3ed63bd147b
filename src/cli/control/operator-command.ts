/** Commands that call the control listener: common options, client, output as JSON or text, exit codes. */
import { quoted } from "../../config/problem.js";
import { isIdentifier } from "../../core/platform.js";
import {
  type Command,
  EXIT_OK,
  expectWords,
  Failure,
  type OptionSpecs,
  type OptionValues,
  readArguments,
  UsageError,
  type Words,
} from "../command.js";
import { columnsOf, escapedData, jsonLine, printed } from "../printing.js";
import { type Call, type ControlClient, createControlClient } from "./client.js";
import { commonHelp, commonOptions, readSignature, readTarget, type Signature, type TargetValues } from "./target.js";

export interface OperatorCall<T extends OptionSpecs = OptionSpecs> {
  client: ControlClient;
  /** Arguments that are not options, without the name of the action. */
  words: Words;
  /** The command's own options. */
  values: OptionValues<T>;
  /** Operator and reason, for the audit log. */
  signature: Signature;
  /** Width of the terminal. */
  columns: number;
  json: boolean;
}

export interface Answer {
  /** The reply of the service, for --json. */
  reply: unknown;
  /** The reply as text. */
  lines(): string[];
  exitCode: number;
}

/** Makes one call and shows its reply. `lines` gets a copy of it with escaped text. */
export async function show<T>(
  { client, columns }: Pick<OperatorCall, "client" | "columns">,
  call: Call<T>,
  lines: (reply: T, columns: number) => string[],
  exitCode: (reply: T) => number = () => EXIT_OK,
): Promise<Answer> {
  const reply = await client.call(call);
  return { reply, lines: () => lines(escapedData(reply), columns), exitCode: exitCode(reply) };
}

interface Action<T extends OptionSpecs> {
  /** Names of the words, for error messages; those in brackets are optional. */
  words?: string[];
  /** Options of the command that only this action takes. */
  options?: (keyof T & string)[];
  /** Returns "" if the output was already printed. */
  run(call: OperatorCall<T>): Promise<Answer | "">;
}

interface CommonParts<T extends OptionSpecs> {
  /** The common options are inserted before the examples. */
  help: string;
  options?: T;
  /** Changes something, so it takes --operator and --reason. */
  isMutating?: boolean;
}

export function operatorCommand<T extends OptionSpecs = Record<never, never>>(
  parts: CommonParts<T> & Omit<Action<T>, "options">,
): Command {
  return commandWith(parts, (words) => {
    return { words: expectWords(words, parts.words ?? []), run: parts.run };
  });
}

/** A command whose first word selects an action. */
export function actionCommand<T extends OptionSpecs>({
  actions,
  defaultAction,
  ...parts
}: CommonParts<T> & { actions: Record<string, Action<T>>; defaultAction?: string }): Command {
  const names = Object.keys(actions).join(", ");
  return commandWith(parts, ([name = defaultAction, ...words], values) => {
    if (name === undefined) throw new UsageError(`an action is missing; expected ${names}`);
    const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
    if (action === undefined) throw new UsageError(`unknown action ${quoted(name)}; expected ${names}`);
    const named = expectWords(words, action.words ?? []);
    const given: Record<string, unknown> = values;
    for (const [owner, { options = [] }] of Object.entries(actions)) {
      const misplaced = owner === name ? undefined : options.find((option) => (given[option] ?? false) !== false);
      if (misplaced !== undefined) throw new UsageError(`--${misplaced} requires the action ${owner}`);
    }
    return { words: named, run: action.run };
  });
}

function commandWith<T extends OptionSpecs>(
  { help, options, isMutating = false }: CommonParts<T>,
  choose: (words: string[], values: OptionValues<T>) => Pick<OperatorCall, "words"> & Pick<Action<T>, "run">,
): Command {
  return {
    help: help.replace(/^Examples?:/m, (examples) => `${commonHelp(isMutating)}\n${examples}`),
    async run(args) {
      const specs: OptionSpecs = { ...commonOptions(isMutating), ...options };
      const given = readArguments(args, specs);
      const values = given.values as OptionValues<T>;
      const { words, run } = choose(given.words, values);
      const target = given.values as unknown as TargetValues;
      const { json } = target;
      const client = createControlClient(readTarget(target, process.env));
      const signature = isMutating ? readSignature(target) : {};
      try {
        const answered = await run({ client, words, values, signature, columns: columnsOf(), json });
        if (answered === "") return "";
        const { reply, lines, exitCode } = answered;
        return { text: json ? jsonLine(reply) : printed(lines()), exitCode };
      } catch (error) {
        if (!json || !(error instanceof Failure) || error.reply === undefined) throw error;
        return { text: jsonLine(error.reply), exitCode: error.exitCode, complaint: error.message };
      } finally {
        await client.close();
      }
    },
  };
}

export function expectApp(name: string): string {
  if (isIdentifier(name)) return name;
  throw new UsageError(`${quoted(name)} is not an app name: 1 to 128 of A–Z a–z 0–9 . _ : -`);
}
