/** `tollgate check-config`: validates a configuration file. */
import { loadConfig } from "../config/load.js";
import { appLimits } from "../config/options/limiter.js";
import { describeProblem } from "../config/problem.js";
import type { Config } from "../config/schema.js";
import { withFileChecks } from "../config/tls-files.js";
import { configVersion } from "../config/version.js";
import { configWarnings, type Warning } from "../config/warnings.js";
import { type Command, EXIT_OK, EXIT_REFUSED, expectWords, flagOption, readArguments, textOption } from "./command.js";
import { explainRequest, explanationText } from "./explain-limits.js";
import { counted } from "./numbers.js";

const help = `Usage: tollgate check-config FILE [--explain REQUEST] [--json]

Reads the file and the environment as \`tollgate serve\` does, starts nothing, and lists every problem. Warns about limits that
can never be met. Does not read the configuration layer in the store, which is validated when it is written and by
\`tollgate reload\`.

  --explain  the limits that a request matches, with the bucket and the tokens of each: METHOD PATH, and any of
             from ADDRESS, user NAME, app NAME, host NAME, bytes N, header NAME=VALUE
  --json     machine-readable: {"file", "valid", "problems": [{"path", "value", "reason"}]}; if it is valid with counts
             and "warnings": [{"path", "reason"}]

Exit code 0 if the file is valid, 1 if it is not, 2 for a usage error.

Examples:
  tollgate check-config examples/gateway.yaml
  tollgate check-config tollgate.yaml --explain 'POST /login from 10.1.2.3 user ann'
`;

export const command: Command = {
  help,
  run(args) {
    const { values, words } = readArguments(args, { json: flagOption, explain: textOption });
    const file = expectWords(words, ["FILE"]).required("FILE");
    const loaded = withFileChecks(loadConfig({ file, env: process.env }));
    if (values.explain !== undefined) {
      const config = configOrThrow(file, loaded);
      if (!values.json) return explanationText(config, values.explain);
      return `${JSON.stringify(explainRequest(config, values.explain))}\n`;
    }
    if (!values.json) {
      const config = configOrThrow(file, loaded);
      const { apps, routes, upstreams, limits, domains } = counts(config);
      const found = [
        ...[counted(apps, "app"), counted(routes, "route"), counted(upstreams, "upstream")],
        ...(limits === 0 ? [] : [counted(limits, "limit")]),
        ...(domains === 0 ? [] : [`${counted(domains, "domain")} of rate_limits`]),
      ].join(", ");
      return `${file} is valid: ${found}\n${warningText(configWarnings(config))}`;
    }
    const { config, problems } = loaded;
    const found =
      config === undefined
        ? {}
        : { version: configVersion(config), ...counts(config), warnings: configWarnings(config) };
    const answer = { file, valid: config !== undefined, problems, ...found };
    return { text: `${JSON.stringify(answer)}\n`, exitCode: config === undefined ? EXIT_REFUSED : EXIT_OK };
  },
};

const MAX_WARNINGS = 20;

function warningText(warnings: Warning[]): string {
  const lines = warnings.slice(0, MAX_WARNINGS).map(({ path, reason }) => `warning: ${path}: ${reason}\n`);
  const more = warnings.length - lines.length;
  return `${lines.join("")}${more > 0 ? `and ${counted(more, "more warning")}; --json lists all\n` : ""}`;
}

function counts(config: Config) {
  const { routes, upstreams, limits, rate_limits } = config;
  return {
    ...{ apps: appLimits(config).length, routes: routes.length, upstreams: Object.keys(upstreams).length },
    ...{ limits: limits.length, domains: rate_limits.length },
  };
}

/** Throws an error that lists all problems. */
export function configOrThrow(file: string | undefined, loaded = loadConfig({ file, env: process.env })): Config {
  if (loaded.config !== undefined) return loaded.config;
  const lines = loaded.problems.map((problem) => `  ${describeProblem(problem)}`);
  throw new Error(`the configuration ${file === undefined ? "" : `${file} `}is invalid\n${lines.join("\n")}`);
}
