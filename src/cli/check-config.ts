/** `tollgate check-config`: reads a configuration as `serve` would, and says everything that is wrong with it. */
import { loadConfig } from "../config/load.js";
import { appLimits } from "../config/options/limits.js";
import { describeProblem } from "../config/problem.js";
import type { Config } from "../config/schema.js";
import { configVersion } from "../config/version.js";
import { type Command, type Outcome, readArguments, UsageError } from "./command.js";
import { FINE, REFUSED } from "./exit-codes.js";

const help = `Usage: tollgate check-config FILE [--json]

Reads the file and the environment as \`tollgate serve\` would, starts nothing, and lists every mistake with its place.
What the store says on top of them is not read: \`tollgate reload\` checks that, and so does who writes it.

  --json  machine-readable: {"file", "valid", "problems": [{"path", "value", "reason"}]}, and what a good one has

Exit code 0 where the file is right, 1 where it is not, 2 for a wrong call.

Example:
  tollgate check-config examples/gateway.yaml
`;

export const checkConfigCommand: Command = {
  name: "check-config",
  summary: "Whether a configuration file is right, and every mistake in it",
  help,
  run(args) {
    const { values, words } = readArguments(args, { json: { type: "boolean", default: false } });
    const [file] = words;
    if (words.length !== 1 || file === undefined) throw new UsageError("give one file");
    return values.json ? asJson(file) : inWords(file);
  },
};

function inWords(file: string): string {
  const { apps, routes, upstreams } = counts(configOrComplain(file));
  return `${file} is right: ${apps} apps, ${routes} routes, ${upstreams} upstreams\n`;
}

function asJson(file: string): Outcome {
  const { config, problems } = loadConfig({ file, env: process.env });
  const found = config === undefined ? {} : { version: configVersion(config), ...counts(config) };
  const answer = { file, valid: config !== undefined, problems, ...found };
  return { text: `${JSON.stringify(answer)}\n`, exitCode: config === undefined ? REFUSED : FINE };
}

function counts(config: Config) {
  const { routes, upstreams } = config;
  return { apps: appLimits(config).length, routes: routes.length, upstreams: Object.keys(upstreams).length };
}

/** The configuration, or an error whose message lists all problems. */
export function configOrComplain(file: string | undefined): Config {
  const { config, problems } = loadConfig({ file, env: process.env });
  if (config !== undefined) return config;
  const lines = problems.map((problem) => `  ${describeProblem(problem)}`);
  throw new Error(`the configuration ${file === undefined ? "" : `${file} `}is not right\n${lines.join("\n")}`);
}
