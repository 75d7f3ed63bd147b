/** `tollgate check-config`: reads a configuration as `serve` would, and says everything that is wrong with it. */
import { parseArgs } from "node:util";
import { loadConfig } from "../config/load.js";
import { describeProblem } from "../config/problem.js";
import { limitedApps } from "../config/rooms.js";
import { type Command, UsageError } from "./command.js";

const help = `Usage: tollgate check-config FILE

Reads the file and the environment as \`tollgate serve\` would, starts nothing, and lists every mistake with its place.
Exit code 1 where there is one.

Example:
  tollgate check-config examples/gateway.yaml
`;

export const checkConfigCommand: Command = {
  name: "check-config",
  summary: "Whether a configuration file is right, and every mistake in it",
  help,
  run(args) {
    const file = readFile(args);
    const config = configOrComplain(file);
    const apps = limitedApps(config).length;
    const { routes, upstreams } = config;
    return `${file} is right: ${apps} apps, ${routes.length} routes, ${Object.keys(upstreams).length} upstreams\n`;
  },
};

function readFile(args: string[]): string {
  let files: string[];
  try {
    files = parseArgs({ args, strict: true, allowPositionals: true, options: {} }).positionals;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
  if (files.length !== 1 || files[0] === undefined) throw new UsageError("give one file");
  return files[0];
}

/** The configuration, or an error whose message lists all problems. */
export function configOrComplain(file: string | undefined) {
  const { config, problems } = loadConfig({ file, env: process.env });
  if (config !== undefined) return config;
  const lines = problems.map((problem) => `  ${describeProblem(problem)}`);
  throw new Error(`the configuration ${file === undefined ? "" : `${file} `}is not right\n${lines.join("\n")}`);
}
