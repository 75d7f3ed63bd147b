/** `tollgate simulate`: what a configuration would have done to the requests of an access log. */

import { appLimits, clusterOptions, leaseOptions } from "../config/options/limits.js";
import type { Config } from "../config/schema.js";
import { linesOf, STDIN } from "../simulate/log-lines.js";
import { replay } from "../simulate/replay.js";
import type { WorldConfig } from "../simulate/world.js";
import { configOrComplain } from "./check-config.js";
import { type Command, readArguments, UsageError } from "./command.js";
import { Failure, REFUSED } from "./exit-codes.js";
import { readDuration, readWhole } from "./numbers.js";
import { jsonLine, printed, styleOf } from "./printing.js";
import { readAppRule, readFields, readFormat } from "./simulate/options.js";
import { createProgress, type Progress } from "./simulate/progress.js";
import { reportData, reportLines } from "./simulate/report.js";

const help = `Usage: tollgate simulate LOG... --config FILE [--against FILE]

Replays an access log against a configuration and shows, per app, what would have been admitted and refused, when, and
why. The limiter and the store are the real ones, in this process, on a clock that follows the log: no server is asked
and none is changed. Every line counts as a request that somebody made, whatever became of it then.

  LOG               one or more files, plain or gzipped, oldest first; - is stdin
  --config FILE     the configuration to try
  --against FILE    a second one, to compare: A is --config, B is --against
  --nodes N         proxies that share the requests in turn (default: 1)
  --format F        auto, combined (nginx, Apache), envoy (also Istio), json (default: auto, from the first lines)
  --app-from RULE   which app a request belongs to; the first rule that finds one decides, else it is "default":
                      user               the authenticated user
                      field=NAME         a field of the line; see below
                      path=PREFIX:APP    paths that begin with PREFIX
                      app=NAME           all of them
                    Without a rule: the field app_id or app of JSON lines
  --field W=NAME    where in the line W stands: time, method, path, app, user, request_bytes, response_bytes or
                    duration. In JSON a name, with dots where it is nested; in combined, of the fields after the user
                    agent, a number from 1 on, or NAME of NAME=value. A duration may have a unit: duration=took:us.
                    Usual names (nginx, Envoy, pino, ECS) need not be given
  --tolerance T     lines may be so much out of order (default: 10s); proxies write them when a request has ended
  --progress        show progress on stderr even if that is no terminal
  --json            machine-readable

A request is priced as the gateway would: by an estimate when it comes, and by what really moved when it ends, after its
duration if the log has one. Times without fractions of a second are spread evenly over their second. Lines that cannot
be read are counted, and the first of them shown.

Exit codes: 0 done, 1 the log or a configuration cannot be read, 2 wrong call.

Examples:
  tollgate simulate access.log --config examples/gateway.yaml
  tollgate simulate access.log.1.gz access.log --config now.yaml --against next.yaml --nodes 4
  tollgate simulate access.log --config now.yaml --app-from path=/video/:video-service --app-from user
  zcat access.log.*.gz | tollgate simulate - --config now.yaml --field duration=rt:s --field app=1 --json
`;

const HOUR_MS = 3_600_000;

export const simulateCommand: Command = {
  name: "simulate",
  summary: "What a configuration would have done to the requests of an access log",
  help,
  async run(args) {
    const { values, words: files } = readArguments(args, {
      config: { type: "string" },
      against: { type: "string" },
      nodes: { type: "string", default: "1" },
      format: { type: "string", default: "auto" },
      "app-from": { type: "string", multiple: true, default: [] },
      field: { type: "string", multiple: true, default: [] },
      tolerance: { type: "string", default: "10s" },
      progress: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
    });
    if (files.length === 0) throw new UsageError("name a log, or - for stdin");
    if (files.filter((file) => file === STDIN).length > 1) throw new UsageError("- can be named once");
    if (values.config === undefined) throw new UsageError("--config is missing, for example --config gateway.yaml");
    const configs = [values.config, ...(values.against === undefined ? [] : [values.against])];
    const rules = values["app-from"].map(readAppRule);
    const nodes = readWhole("--nodes", values.nodes, { least: 1, most: 1_000 });
    const options = {
      format: readFormat(values.format),
      fields: readFields(values.field),
      toleranceMs: readDuration("--tolerance", values.tolerance, { leastMs: 0, mostMs: HOUR_MS }),
      ...(rules.length > 0 ? { rules } : {}),
      nodes,
      worlds: configs.map((file) => worldConfig(configOrComplain(file))),
    };
    const progress = createProgress({ files, stderr: process.stderr, wanted: values.progress });
    const done = await replay({
      ...options,
      lines: allLines(files, progress),
      onProgress: ({ lines }) => progress.lines(lines),
    }).finally(() => progress.end());
    const report = { replay: done, configs, nodes };
    const text = values.json
      ? jsonLine(reportData(report))
      : printed(reportLines(report, styleOf(process.stdout)), styleOf(process.stdout));
    if (done.requests > 0 || done.badLines === 0) return text;
    return { text, exitCode: REFUSED, complaint: "no line of the log can be read; see --format and --field" };
  },
};

/** Of a configuration, all that decides; the store it names is not asked. */
export function worldConfig(config: Config): WorldConfig {
  return {
    apps: appLimits(config),
    unknownApps: config.unknown_apps,
    cluster: clusterOptions(config),
    lease: leaseOptions(config),
    timeoutMs: config.lease.timeout_ms,
    failOpenTokens: config.fail_open_tokens,
    automaticEmergency: config.cluster.automatic_emergency,
    emergencyCooldownMs: config.cluster.emergency_cooldown_ms,
  };
}

async function* allLines(files: string[], progress: Progress): AsyncGenerator<string[]> {
  for (const name of files) {
    try {
      yield* linesOf({ name, stdin: process.stdin, onBytes: (count) => progress.bytes(count) });
    } catch (error) {
      // What the replay itself throws does not come through here: only reading does.
      throw new Failure(`${name} cannot be read: ${error instanceof Error ? error.message : String(error)}`, REFUSED);
    }
  }
}
