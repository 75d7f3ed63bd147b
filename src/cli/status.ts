/** `tollgate status`: shows the state of a service; live with --watch. */
import type { Command } from "./command.js";
import type { ControlClient } from "./control/client.js";
import { type Answer, operatorCommand } from "./control/operator-command.js";
import { Failure, FINE, UNHEALTHY } from "./exit-codes.js";
import { readDuration, readWhole } from "./numbers.js";
import { escaped, jsonLine, type Line, type Style, toned } from "./printing.js";
import { statusLine, statusScreen } from "./status/screen.js";
import { ratesOf, type Snapshot, takeSnapshot } from "./status/snapshot.js";
import { processTerminal } from "./status/terminal.js";
import { watch } from "./status/watch.js";

const help = `Usage: tollgate status [--watch [SECONDS]] [--apps N]

Shows mode, requests, refusals, share of local decisions, latency, store, and the busiest apps of a service. Exit code 5
if it is not in normal mode, but degraded, in an emergency, starting or stopping.

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
  async run({ client, values, style, json }) {
    const mostApps = readWhole("--apps", String(values.apps), { least: 0, most: 10_000 });
    if (values.watch === undefined) return once(client, style, mostApps);
    const intervalMs = readInterval(String(values.watch));
    const first = await takeSnapshot(client);
    const terminal = json ? undefined : processTerminal();
    if (terminal === undefined) await printLines(client, first, intervalMs, json);
    else await watchScreen({ client, first, intervalMs, terminal, mostApps });
    return "";
  },
});

/** node:util has no options with an optional value, so --watch gets its default here. */
export const command: Command = {
  ...inner,
  run(args: string[]) {
    const given: string[] = [];
    for (let at = 0; at < args.length; at++) {
      const arg = args[at] ?? "";
      const next = args[at + 1] ?? "";
      if (arg !== "--watch" && arg !== "-w") given.push(arg);
      else if (/^[0-9]/.test(next)) given.push(`--watch=${args[++at]}`);
      else given.push(`--watch=${DEFAULT_WATCH}`);
    }
    return inner.run(given);
  },
};

function readInterval(text: string): number {
  const withUnit = /^[0-9]+(\.[0-9]+)?$/.test(text) ? `${text}s` : text;
  return readDuration("--watch", withUnit, { leastMs: 100, mostMs: 3_600_000 });
}

async function once(client: ControlClient, style: Style, mostApps: number): Promise<Answer> {
  const snapshot = await takeSnapshot(client);
  const { status } = snapshot;
  const isNormal = status.status === "running" && status.mode === "normal";
  return {
    reply: status,
    lines: () =>
      statusScreen({ snapshot, rates: ratesOf(undefined, snapshot), style, rows: Number.POSITIVE_INFINITY, mostApps }),
    exitCode: isNormal ? FINE : UNHEALTHY,
  };
}

interface Watched {
  client: ControlClient;
  first: Snapshot;
  intervalMs: number;
  terminal: NonNullable<ReturnType<typeof processTerminal>>;
  mostApps: number;
}

/** If the service is unavailable, for example restarting, keeps the last screen and shows the error. */
async function watchScreen({ client, first, intervalMs, terminal, mostApps }: Watched): Promise<void> {
  let snapshot = first;
  let rates = ratesOf(undefined, first);
  let failure = "";
  await watch({
    terminal,
    intervalMs,
    async update() {
      try {
        const next = await takeSnapshot(client);
        rates = ratesOf(snapshot, next);
        snapshot = next;
        failure = "";
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        failure = error.message.split("\n")[0] ?? "";
      }
    },
    draw({ columns, rows }) {
      const style = { ...terminal.style, columns };
      const foot: Line = failure === "" ? footLine(snapshot, intervalMs) : [toned("bad", escaped(failure))];
      const screen = statusScreen({ snapshot, rates, style, rows: rows - 2, mostApps });
      return [...screen, [], foot].slice(-rows);
    },
  });
}

function footLine({ status }: Snapshot, intervalMs: number): Line {
  return [toned("faint", `${status.timestamp.slice(11, 19)} UTC, every ${intervalMs / 1000} s; q to quit`)];
}

/** For logs and pipes: one line per snapshot, until stdout is closed. */
async function printLines(client: ControlClient, first: Snapshot, intervalMs: number, json: boolean): Promise<void> {
  let snapshot = first;
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  process.stdout.once("error", end);
  process.stdout.write(
    json ? jsonLine(snapshot.status) : `${escaped(statusLine(snapshot, ratesOf(undefined, snapshot)))}\n`,
  );
  while (!isOver) {
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
    if (isOver) return;
    try {
      const next = await takeSnapshot(client);
      process.stdout.write(json ? jsonLine(next.status) : `${escaped(statusLine(next, ratesOf(snapshot, next)))}\n`);
      snapshot = next;
    } catch (error) {
      // The service may be restarting.
      if (!(error instanceof Failure)) throw error;
      process.stderr.write(`tollgate: ${error.message}\n`);
    }
  }
}
