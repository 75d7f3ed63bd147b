/** Runs a command line: text for stdout, a message for stderr, an exit code. Never throws. */
import { didYouMean } from "../config/nearest.js";
import { quoted } from "../config/problem.js";
import { programVersion } from "../service/process/version.js";
import {
  type Command,
  EXIT_OK,
  EXIT_REFUSED,
  EXIT_USAGE,
  exitCodes,
  Failure,
  type Outcome,
  UsageError,
} from "./command.js";
import { commandGroups } from "./command-list.js";

const commands = commandGroups.flatMap((group) => group.commands);
const commandNamed = (name: string | undefined) => commands.find((command) => command.name === name);
const listed = ({ title, commands: members }: (typeof commandGroups)[number]) =>
  `${title}:\n${members.map(({ name, summary }) => `  ${name.padEnd(13)} ${summary}\n`).join("")}`;

const help = `Usage: tollgate <command> [options]

${commandGroups.map(listed).join("\n")}
  help COMMAND, or COMMAND --help   Show the help of a command
  --version, -v                     Show the version

Exit codes:
${exitCodes.map(([code, meaning]) => `  ${code}  ${meaning}`).join("\n")}

Examples:
  tollgate serve --config examples/gateway.yaml
  tollgate status --watch
  tollgate why demo
`;

async function run([name, ...rest]: string[]): Promise<string | Outcome> {
  if (name === undefined) throw new UsageError("a command is missing");
  if (name === "help" && rest[0] !== undefined) return (await load(rest[0])).help;
  if (name === "--help" || name === "-h" || name === "help") return help;
  if (name === "--version" || name === "-v") return `${programVersion()}\n`;
  const command = await load(name);
  return rest.includes("--help") || rest.includes("-h") ? command.help : command.run(rest);
}

async function load(name: string): Promise<Command> {
  const listedCommand = commandNamed(name);
  if (listedCommand !== undefined) return (await listedCommand.load()).command;
  const names = commands.map((each) => each.name);
  const hint = didYouMean(name, names) || `; expected ${names.join(", ")}`;
  throw new UsageError(`unknown command ${quoted(name)}${hint}`);
}

export async function runCommandLine(args: string[]): Promise<Outcome> {
  try {
    const outcome = await run(args);
    return typeof outcome === "string" ? { text: outcome, exitCode: EXIT_OK } : outcome;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    if (!(error instanceof UsageError)) {
      return { text: "", exitCode: error instanceof Failure ? error.exitCode : EXIT_REFUSED, complaint: message };
    }
    const command = commandNamed(args[0]);
    const hint = `See tollgate ${command === undefined ? "" : `${command.name} `}--help`;
    return { text: "", exitCode: EXIT_USAGE, complaint: `${message}\n${hint}` };
  }
}
