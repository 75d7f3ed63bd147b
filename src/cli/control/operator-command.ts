/** Commands that call the control listener: common options, client, output as JSON or text, exit codes. */
import { quoted } from "../../config/problem.js";
import { isIdentifier } from "../../core/platform.js";
import { type Command, expectWords, type OptionSpecs, type Outcome, readArguments, UsageError } from "../command.js";
import { Failure, FINE } from "../exit-codes.js";
import { jsonLine, type Line, printed, type Style, styleOf } from "../printing.js";
import { type ControlClient, createControlClient } from "./client.js";
import {
  orderHelp,
  orderOptions,
  readSignature,
  readTarget,
  type Signature,
  type TargetValues,
  targetHelp,
  targetOptions,
} from "./target.js";

export interface OperatorCall {
  client: ControlClient;
  /** Arguments that are not options, without the name of the action. */
  words: string[];
  /** The command's own options. */
  values: Record<string, string | boolean | undefined>;
  /** Operator and reason, for the audit log. */
  signature: Signature;
  style: Style;
  json: boolean;
}

export interface Answer {
  /** The reply of the service, for --json. */
  reply: unknown;
  /** The reply as text. */
  lines(): Line[];
  exitCode?: number;
}

export interface Action {
  /** Names of the words, for error messages; those in brackets are optional. */
  words?: string[];
  /** Options of the command that only this action takes. */
  options?: string[];
  /** Returns "" if the output was already printed. */
  run(call: OperatorCall): Promise<Answer | "">;
}

interface CommonParts {
  /** The common options are inserted before the examples. */
  help: string;
  options?: OptionSpecs;
  /** Changes something, so it takes --operator and --reason. */
  isOrder?: boolean;
}

export function operatorCommand({ words, run, ...parts }: CommonParts & Omit<Action, "options">): Command {
  return commandWith(parts, (given) => {
    expectWords(given, words ?? []);
    return { words: given, run };
  });
}

/** A command whose first word selects an action. */
export function actionCommand(
  { actions, ...parts }: CommonParts & { actions: Record<string, Action> },
  defaultAction?: string,
): Command {
  const names = Object.keys(actions).join(", ");
  return commandWith(parts, ([name = defaultAction, ...rest], values) => {
    if (name === undefined) throw new UsageError(`an action is missing; expected ${names}`);
    const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
    if (action === undefined) throw new UsageError(`unknown action ${quoted(name)}; expected ${names}`);
    expectWords(rest, action.words ?? []);
    for (const [owner, { options = [] }] of Object.entries(actions)) {
      const misplaced = owner === name ? undefined : options.find((option) => (values[option] ?? false) !== false);
      if (misplaced !== undefined) throw new UsageError(`--${misplaced} requires the action ${owner}`);
    }
    return { words: rest, run: action.run };
  });
}

type Chosen = Pick<OperatorCall, "words"> & Pick<Action, "run">;

function commandWith(
  { help, options = {}, isOrder = false }: CommonParts,
  choose: (words: string[], values: OperatorCall["values"]) => Chosen,
): Command {
  const common = isOrder ? targetHelp + orderHelp : targetHelp;
  return {
    help: help.replace(/^Examples?:/m, (examples) => `${common}\n${examples}`),
    async run(args) {
      const specs: OptionSpecs = { ...targetOptions, ...(isOrder ? orderOptions : {}), ...options };
      const given = readArguments(args, specs);
      const values = given.values as OperatorCall["values"];
      const { words, run } = choose(given.words, values);
      const json = values.json === true;
      const style = styleOf(process.stdout);
      const client = createControlClient(readTarget(values as TargetValues, process.env));
      const signature = isOrder ? readSignature(values as TargetValues) : {};
      try {
        const answer = await run({ client, words, values, signature, style, json });
        return answer === "" ? "" : outcomeOf(answer, json, style);
      } catch (error) {
        if (!json || !(error instanceof Failure) || error.reply === undefined) throw error;
        return { text: jsonLine(error.reply), exitCode: error.exitCode, complaint: error.message };
      } finally {
        await client.close();
      }
    },
  };
}

function outcomeOf({ reply, lines, exitCode = FINE }: Answer, json: boolean, style: Style): Outcome {
  return { text: json ? jsonLine(reply) : printed(lines(), style), exitCode };
}

export function textOption(values: OperatorCall["values"], name: string): string | undefined {
  const value = values[name];
  return typeof value === "string" ? value : undefined;
}

export function expectApp(name: string | undefined): string {
  if (name !== undefined && isIdentifier(name) && name.length <= 128) return name;
  throw new UsageError(`${quoted(name ?? "")} is not an app name: 1 to 128 of A–Z a–z 0–9 . _ : -`);
}

/** The operator as a header, for requests without a body. */
export function operatorHeader({ operator }: Signature): { headers?: Record<string, string> } {
  const plain = operator?.replace(/[^ -~]/g, "?").trim() ?? "";
  return plain === "" ? {} : { headers: { "x-operator": plain } };
}
