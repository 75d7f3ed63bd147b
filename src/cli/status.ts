/** `tollgate status`: shows the state of a service; live with --watch. */
import { setTimeout } from "node:timers/promises";
import { type Command, EXIT_OK, EXIT_UNHEALTHY, Failure } from "./command.js";
import type { ControlClient } from "./control/client.js";
import { type Answer, operatorCommand } from "./control/operator-command.js";
import { readDuration, readWhole } from "./numbers.js";
import { escaped, jsonLine, toned } from "./printing.js";
import { statusLine, statusScreen } from "./status/screen.js";
import { ratesOf, type Snapshot, takeSnapshot } from "./status/snapshot.js";
import { watch } from "./status/watch.js";

const help = `Usage: tollgate status [--watch [SECONDS]] [--apps N]

Shows mode, degradation level, requests, refusals, share of local decisions, latency, store, and the busiest apps of a service.
Exit code 5 if it is not in normal mode, but degraded, in an emergency, starting or stopping.

  --watch [SECONDS]  update every 2 seconds or at the given interval, with current rates; the space bar updates at once, q
                     or Ctrl-C ends. If stdout is not a terminal, prints one line per update
  --apps N           maximum number of apps to show (default: 10)

Examples:
  tollgate status
  tollgate status --watch 1
  tollgate status --json | jq .statistics.rejected_requests
`;

const DEFAULT_WATCH = "2s";

const inner = operatorCommand({
  help,
  options: { watch: { type: "string", short: "w" }, apps: { type: "string", default: "10" } },
  async run({ client, values, columns, json }) {
    const mostApps = readWhole("--apps", values.apps, { least: 0, most: 10_000 });
    const intervalMs = values.watch === undefined ? 0 : readInterval(values.watch);
    const first = await takeSnapshot(client);
    if (values.watch === undefined) return once(first, mostApps, columns);
    const isTerminal = process.stdout.isTTY && process.env.TERM !== "dumb";
    if (json || !isTerminal) await printLines({ client, first, intervalMs, json });
    else await watchScreen({ client, first, intervalMs, mostApps });
    return "";
  },
});

const isWatch = (arg: string | undefined) => arg === "--watch" || arg === "-w";
const isInterval = (arg: string | undefined) => /^[0-9]/.test(arg ?? "");

/** node:util has no options with an optional value, so --watch gets its default here. */
export const command: Command = {
  ...inner,
  run: (args) =>
    inner.run(
      args.flatMap((arg, at) => {
        if (isWatch(arg)) return `--watch=${isInterval(args[at + 1]) ? args[at + 1] : DEFAULT_WATCH}`;
        return isWatch(args[at - 1]) && isInterval(arg) ? [] : arg;
      }),
    ),
};

function readInterval(text: string): number {
  const withUnit = /^[0-9]+(\.[0-9]+)?$/.test(text) ? `${text}s` : text;
  return readDuration("--watch", withUnit, { leastMs: 100, mostMs: 3_600_000 });
}

function once(snapshot: Snapshot, mostApps: number, columns: number): Answer {
  const { status, mode } = snapshot.status;
  const rates = ratesOf(undefined, snapshot);
  return {
    reply: snapshot.status,
    lines: () => statusScreen({ snapshot, rates, mostApps, columns, rows: Number.POSITIVE_INFINITY }),
    exitCode: status === "running" && mode === "normal" ? EXIT_OK : EXIT_UNHEALTHY,
  };
}

interface Watched {
  client: ControlClient;
  first: Snapshot;
  intervalMs: number;
}

/** If the service is unavailable, for example restarting, keeps the last screen and shows the error. */
function watchScreen({ client, first, intervalMs, mostApps }: Watched & { mostApps: number }): Promise<void> {
  let snapshot = first;
  let rates = ratesOf(undefined, first);
  let failure = "";
  return watch({
    intervalMs,
    async update() {
      try {
        const next = await takeSnapshot(client);
        rates = ratesOf(snapshot, next);
        snapshot = next;
        failure = "";
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        failure = escaped(error.message.replace(/\n.*/s, ""));
      }
    },
    draw({ columns, rows }) {
      const time = snapshot.status.timestamp.slice(11, 19);
      const foot = toned("faint", `${time} UTC, every ${intervalMs / 1000} s; q to quit`);
      const screen = statusScreen({ snapshot, rates, mostApps, columns, rows: rows - 2 });
      return [...screen, "", failure === "" ? foot : toned("bad", failure)].slice(-rows);
    },
  });
}

/** For logs and pipes: one line per snapshot, until stdout is closed. */
async function printLines({ client, first, intervalMs, json }: Watched & { json: boolean }): Promise<void> {
  let before: Snapshot | undefined;
  let now: Snapshot | undefined = first;
  let isOver = false;
  process.stdout.once("error", () => {
    isOver = true;
  });
  while (!isOver) {
    if (now !== undefined) {
      process.stdout.write(json ? jsonLine(now.status) : `${statusLine(now, ratesOf(before, now))}\n`);
      before = now;
    }
    await setTimeout(intervalMs);
    now = await takeSnapshot(client).catch((error: unknown) => {
      // The service may be restarting.
      if (!(error instanceof Failure)) throw error;
      process.stderr.write(`tollgate: ${error.message}\n`);
      return undefined;
    });
  }
}
