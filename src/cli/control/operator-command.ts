/** A command that asks the control listener something: common options, one client, JSON or text, exit codes. */
import { quoted } from "../../config/problem.js";
import { type Command, type OptionSpecs, type Outcome, readArguments, UsageError } from "../command.js";
import { Failure, FINE } from "../exit-codes.js";
import { jsonLine, type Line, printed, type Style, styleOf } from "../printing.js";
import { type ControlClient, createControlClient } from "./client.js";
import {
  orderHelp,
  orderOptions,
  readSignature,
  readTarget,
  type Signature,
  targetHelp,
  targetOptions,
} from "./target.js";

export interface OperatorCall {
  client: ControlClient;
  /** What is no option. */
  words: string[];
  /** The command's own options, by name. */
  values: Record<string, string | boolean | undefined>;
  /** Who orders it and why: part of the body of an order. */
  signature: Signature;
  style: Style;
  json: boolean;
}

export interface Answer {
  /** For --json: what the service said. */
  reply: unknown;
  /** The same for people. */
  lines(): Line[];
  exitCode?: number;
  /** Why the exit code is what it is, where the reply does not say it. */
  complaint?: string;
}

export interface OperatorCommand {
  name: string;
  summary: string;
  /** Usage, what it does, its own options, and examples; the common options are added. */
  help: string;
  options?: OptionSpecs;
  /** It changes something, so it is signed. */
  isOrder?: boolean;
  /** "" where everything was printed already. */
  run(call: OperatorCall): Promise<Answer | "">;
}

export function operatorCommand({ name, summary, help, options = {}, isOrder = false, run }: OperatorCommand): Command {
  const known = { ...targetOptions, ...(isOrder ? orderOptions : {}), ...options };
  return {
    name,
    summary,
    help: withCommonOptions(help, isOrder),
    async run(args) {
      const { values, words } = readArguments(args, known as OptionSpecs) as {
        values: Record<string, string | boolean | undefined>;
        words: string[];
      };
      const json = values.json === true;
      const client = createControlClient(readTarget(values, process.env));
      const style = styleOf(process.stdout);
      const signature = isOrder ? readSignature(values) : {};
      try {
        const answer = await run({ client, words, values, signature, style, json });
        if (answer === "") return "";
        return outcomeOf(answer, json, style);
      } catch (error) {
        if (!json || !(error instanceof Failure) || error.reply === undefined) throw error;
        return { text: jsonLine(error.reply), exitCode: error.exitCode, complaint: error.message };
      } finally {
        await client.close();
      }
    },
  };
}

function outcomeOf({ reply, lines, exitCode = FINE, complaint }: Answer, json: boolean, style: Style): Outcome {
  const text = json ? jsonLine(reply) : printed(lines(), style);
  return { text, exitCode, ...(complaint === undefined ? {} : { complaint }) };
}

/** The examples stay at the end, where they are looked for. */
function withCommonOptions(help: string, isOrder: boolean): string {
  const common = isOrder ? targetHelp + orderHelp : targetHelp;
  return help.replace(/^Examples?:/m, (examples) => `${common}\n${examples}`);
}

/** The words of a call: exactly `names`, or fewer where the last are optional. */
export function expectWords(words: string[], names: string[], least = names.length): void {
  if (words.length < least) throw new UsageError(`${names[words.length]} is missing`);
  if (words.length > names.length) {
    throw new UsageError(`${quoted(words[names.length] ?? "")} is one word too many`);
  }
}

export function textOption(values: OperatorCall["values"], name: string): string | undefined {
  const value = values[name];
  return typeof value === "string" ? value : undefined;
}

/** A DELETE has no body to say it in. */
export function signed({ operator }: OperatorCall["signature"]): { headers?: Record<string, string> } {
  const plain = operator?.replace(/[^ -~]/g, "?").trim() ?? "";
  return plain === "" ? {} : { headers: { "x-operator": plain } };
}
