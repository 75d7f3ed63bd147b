/** `tollgate simulate`: replays an access log against a configuration. */
import type { Config } from "../config/schema.js";
import { FORMATS } from "../simulate/log-format.js";
import { linesOf, STDIN } from "../simulate/log-lines.js";
import { readLog } from "../simulate/read-log.js";
import { needsAttributes, type ReplayOptions, replay } from "../simulate/replay.js";
import { createSuggestions, SHARES } from "../simulate/suggest.js";
import { configOrThrow } from "./check-config.js";
import {
  type Command,
  EXIT_REFUSED,
  Failure,
  flagOption,
  readArguments,
  readChoice,
  textOption,
  UsageError,
} from "./command.js";
import { readDuration, readWhole } from "./numbers.js";
import { columnsOf, jsonLine, printed } from "./printing.js";
import { readAppRule, readFields } from "./simulate/options.js";
import { createProgress, type Progress } from "./simulate/progress.js";
import { reportData, reportLines } from "./simulate/report.js";
import { suggestionData, suggestionLines } from "./simulate/suggestions.js";

const help = `Usage: tollgate simulate LOG... --config FILE [--against FILE]

Replays an access log against a configuration and shows for each app what would have been admitted and refused, when, and
why. Uses the real limiter and embedded store in this process on a simulated clock; no server is called. Every line counts
as a request, whatever its status was.

  LOG               one or more files, plain or gzipped, oldest first; - is stdin
  --config FILE     the configuration to try
  --against FILE    a second configuration for comparison: A is --config, B is --against
  --suggest         suggest rates for apps and \`limits\`: for each the lowest that would have refused no request, 0.1 % or 1 %
                    of them, with what the limiter refuses at these rates. Reads the log twice
  --nodes N         number of nodes that get the requests in turn (default: 1)
  --format F        auto, combined (nginx, Apache), envoy (also Istio), json (default: auto, from the first lines)
  --app-from RULE   how to find the app of a request. The first rule that finds one decides; otherwise it is "default":
                      user               the authenticated user
                      field=NAME         a field of the line; see below
                      path=PREFIX:APP    paths that begin with PREFIX
                      app=NAME           all requests
                    Without a rule: the field app_id or app of JSON lines
  --field W=NAME    the field that contains W: time, method, path, app, user, address, request_bytes, response_bytes or
                    duration. In JSON a name, with dots if nested. In the combined format, one of the fields after the user agent: a
                    number from 1 on, or NAME of NAME=value. A duration can have a unit: duration=took:us. The names used
                    by nginx, Envoy, pino and ECS are known
  --tolerance T     how far lines may be out of order (default: 10s); proxies write a line when a request ends
  --progress        show progress on stderr even if it is not a terminal
  --json            machine-readable

Requests are priced as in the gateway: by an estimate at the start, and by the actual sizes at the end, after the duration
if the log has one. \`limits\` apply as well; logs have no headers and hosts, so limits on these see requests without them. Times without fractions of a second are spread evenly over their second. Unreadable lines are counted,
and the first ones are shown.

Exit codes: 0 success, 1 the log or a configuration cannot be read, 2 usage error.

Examples:
  tollgate simulate access.log --config examples/gateway.yaml
  tollgate simulate access.log.1.gz access.log --config now.yaml --against next.yaml --nodes 4
  tollgate simulate access.log --config now.yaml --suggest
  tollgate simulate access.log --config now.yaml --app-from path=/video/:video-service --app-from user
  zcat access.log.*.gz | tollgate simulate - --config now.yaml --field duration=rt:s --field app=1 --json
`;

const HOUR_MS = 3_600_000;

export const command: Command = {
  help,
  async run(args) {
    const { values, words: files } = readArguments(args, {
      config: textOption,
      against: textOption,
      suggest: flagOption,
      nodes: { type: "string", default: "1" },
      format: { type: "string", default: "auto" },
      "app-from": { type: "string", multiple: true, default: [] },
      field: { type: "string", multiple: true, default: [] },
      tolerance: { type: "string", default: "10s" },
      progress: flagOption,
      json: flagOption,
    });
    if (files.length === 0) throw new UsageError("LOG is missing; - reads stdin");
    if (files.filter((file) => file === STDIN).length > 1) throw new UsageError("- can be given only once");
    if (values.config === undefined) throw new UsageError("--config is missing, for example --config gateway.yaml");
    if (values.suggest && values.against !== undefined)
      throw new UsageError("--suggest and --against exclude each other");
    if (values.suggest && files.includes(STDIN))
      throw new UsageError("--suggest reads the log twice, so it cannot be -");
    const names = [values.config, ...(values.against === undefined ? [] : [values.against])];
    const rules = values["app-from"].map(readAppRule);
    const nodes = readWhole("--nodes", values.nodes, { least: 1, most: 1_000 });
    const options = {
      format: values.format === "auto" ? undefined : readChoice("--format", values.format, FORMATS),
      fields: readFields(values.field),
      toleranceMs: readDuration("--tolerance", values.tolerance, { leastMs: 0, mostMs: HOUR_MS }),
      rules: rules.length > 0 ? rules : undefined,
      nodes,
    };
    const config = configOrThrow(values.config);
    const configs = values.suggest
      ? await withSuggestions(files, values.progress, config, options)
      : [config, ...(values.against === undefined ? [] : [configOrThrow(values.against)])];
    const progress = createProgress(files, values.progress);
    const lines = allLines(files, progress);
    const done = await replay({ ...options, configs, lines, onProgress: progress.lines }).finally(progress.end);
    // The suggestions have a table of their own.
    const compared = values.suggest ? { ...done, outcomes: done.outcomes.slice(0, 1) } : done;
    const report = { replay: compared, configs: names, nodes };
    const suggested = { configs, shares: SHARES, replay: done };
    const text = values.json
      ? jsonLine({ ...reportData(report), ...(values.suggest ? { suggestions: suggestionData(suggested) } : {}) })
      : printed([
          ...reportLines(report, columnsOf()),
          ...(values.suggest ? suggestionLines(suggested, columnsOf()) : []),
        ]);
    if (done.requests > 0 || done.badLines === 0) return text;
    return { text, exitCode: EXIT_REFUSED, complaint: "no line of the log could be read; see --format and --field" };
  },
};

/** The configuration, and one for each share of requests that may be refused. */
async function withSuggestions(
  files: string[],
  showsProgress: boolean,
  config: Config,
  options: Omit<ReplayOptions, "lines" | "configs">,
): Promise<Config[]> {
  const { observe, suggested } = createSuggestions(config);
  const progress = createProgress(files, showsProgress);
  const log = { ...options, lines: allLines(files, progress), hasLimits: needsAttributes(config) };
  await readLog({ ...log, onProgress: progress.lines }, (request) => {
    observe(request);
    return undefined;
  }).finally(progress.end);
  return [config, ...SHARES.map(suggested)];
}

async function* allLines(files: string[], progress: Progress): AsyncGenerator<string[]> {
  for (const name of files) {
    try {
      yield* linesOf({ name, stdin: process.stdin, onBytes: (count) => progress.bytes(count) });
    } catch (error) {
      // Only read errors: the replay throws its own elsewhere.
      throw new Failure(
        `${name} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
        EXIT_REFUSED,
      );
    }
  }
}
