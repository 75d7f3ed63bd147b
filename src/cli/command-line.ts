/** All commands, and what becomes of a call: text for stdout, a complaint for stderr, an exit code. Never throws. */
import { readFileSync } from "node:fs";
import { nearest } from "../config/nearest.js";
import { quoted } from "../config/problem.js";
import { type Outcome, UsageError } from "./command.js";
import { commandGroups, type ListedCommand } from "./command-list.js";
import { exitCodes, Failure, FINE, REFUSED, WRONG_CALL } from "./exit-codes.js";

const commands = commandGroups.flatMap(([, members]) => members);

const help = `Usage: tollgate <command> [options]

${commandGroups.map(([title, members]) => `${title}:\n${members.map(listed).join("\n")}\n`).join("\n")}
  --help        This text; after a command, the help of that command
  --version     The version

Exit codes:
${exitCodes.map(([code, meaning]) => `  ${code}  ${meaning}`).join("\n")}

Examples:
  tollgate serve --config examples/gateway.yaml
  tollgate status --watch
  tollgate why video-service
`;

function listed({ name, summary }: ListedCommand): string {
  return `  ${name.padEnd(13)} ${summary}`;
}

async function run(args: string[]): Promise<string | Outcome> {
  const [name, ...rest] = args;
  if (name === undefined) throw new UsageError("a command is missing");
  if (name === "--help" || name === "-h" || name === "help") return help;
  if (name === "--version") return `${version()}\n`;
  const command = commands.find((candidate) => candidate.name === name);
  if (command === undefined) {
    const names = commands.map((each) => each.name);
    const likely = nearest(name, names);
    const hint = likely === undefined ? `there are ${names.join(", ")}` : `did you mean ${likely}?`;
    throw new UsageError(`there is no command ${quoted(name)}; ${hint}`);
  }
  const loaded = await command.load();
  return rest.includes("--help") || rest.includes("-h") ? loaded.help : loaded.run(rest);
}

function version(): string {
  const about: { version: string } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return about.version;
}

function failed(error: unknown, name: string | undefined): Outcome {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof UsageError) {
    const command = commands.find((candidate) => candidate.name === name);
    const hint = `See tollgate ${command === undefined ? "" : `${command.name} `}--help`;
    return { text: "", exitCode: WRONG_CALL, complaint: `${message}\n${hint}` };
  }
  return { text: "", exitCode: error instanceof Failure ? error.exitCode : REFUSED, complaint: message };
}

export async function runCommandLine(args: string[]): Promise<Outcome> {
  try {
    const outcome = await run(args);
    return typeof outcome === "string" ? { text: outcome, exitCode: FINE } : outcome;
  } catch (error) {
    return failed(error, args[0]);
  }
}
