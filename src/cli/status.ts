/** `tollgate status`: how a service is doing; with --watch, live. */
import type { ControlClient } from "./control/client.js";
import { type Answer, expectWords, operatorCommand } from "./control/operator-command.js";
import { Failure, FINE, UNHEALTHY } from "./exit-codes.js";
import { readDuration, readWhole } from "./numbers.js";
import { escaped, jsonLine, type Line, type Style, toned } from "./printing.js";
import { type Look, paceOf, takeLook } from "./status/look.js";
import { statusLine, statusScreen } from "./status/screen.js";
import { processTerminal } from "./status/terminal.js";
import { watch } from "./status/watch.js";

const help = `Usage: tollgate status [--watch [SECONDS]] [--apps N]

How a service is doing: its mode, requests and refusals, the part of decisions made without the store, their latency,
the store, and the busiest apps. Exit code 5 where it is not in its normal mode: degraded, emergency, starting, stopping.

  --watch [SECONDS]  live: looks every 2 seconds, or as often as you say, and shows rates between two looks; q or Ctrl-C
                     ends it, the space bar looks at once. Where stdout is no terminal: one line per look
  --apps N           show at most so many apps (default: 10)

Examples:
  tollgate status
  tollgate status --watch 1
  tollgate status --json | jq .statistics.rejected_requests
`;

const DEFAULT_WATCH = "2s";

const command = operatorCommand({
  name: "status",
  summary: "How a service is doing; live with --watch",
  help,
  options: { watch: { type: "string", short: "w" }, apps: { type: "string", default: "10" } },
  async run({ client, words, values, style, json }) {
    expectWords(words, []);
    const mostApps = readWhole("--apps", String(values.apps), { least: 0, most: 10_000 });
    if (values.watch === undefined) return once(client, style, mostApps);
    const intervalMs = readInterval(String(values.watch));
    const first = await takeLook(client);
    const terminal = json ? undefined : processTerminal();
    if (terminal === undefined) await printLooks(client, first, intervalMs, json);
    else await watchScreen({ client, first, intervalMs, terminal, mostApps });
    return "";
  },
});

/** node:util knows no option with a value that may be left out. */
export const statusCommand = {
  ...command,
  run(args: string[]) {
    const given: string[] = [];
    for (let at = 0; at < args.length; at++) {
      const arg = args[at] ?? "";
      const next = args[at + 1] ?? "";
      if (arg !== "--watch" && arg !== "-w") given.push(arg);
      else if (/^[0-9]/.test(next)) given.push(`--watch=${args[++at]}`);
      else given.push(`--watch=${DEFAULT_WATCH}`);
    }
    return command.run(given);
  },
};

function readInterval(text: string): number {
  const withUnit = /^[0-9]+(\.[0-9]+)?$/.test(text) ? `${text}s` : text;
  return readDuration("--watch", withUnit, { leastMs: 100, mostMs: 3_600_000 });
}

async function once(client: ControlClient, style: Style, mostApps: number): Promise<Answer> {
  const look = await takeLook(client);
  const { status } = look;
  const isNormal = status.status === "running" && status.mode === "normal";
  return {
    reply: status,
    lines: () => statusScreen({ look, pace: paceOf(undefined, look), style, rows: Number.POSITIVE_INFINITY, mostApps }),
    exitCode: isNormal ? FINE : UNHEALTHY,
  };
}

interface Watched {
  client: ControlClient;
  first: Look;
  intervalMs: number;
  terminal: NonNullable<ReturnType<typeof processTerminal>>;
  mostApps: number;
}

/** While the service is away the last screen stays, with a line that says so; it may be restarting. */
async function watchScreen({ client, first, intervalMs, terminal, mostApps }: Watched): Promise<void> {
  let look = first;
  let pace = paceOf(undefined, first);
  let trouble = "";
  await watch({
    terminal,
    intervalMs,
    async look() {
      try {
        const next = await takeLook(client);
        pace = paceOf(look, next);
        look = next;
        trouble = "";
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        trouble = error.message.split("\n")[0] ?? "";
      }
    },
    draw({ columns, rows }) {
      const style = { ...terminal.style, columns };
      const foot: Line = trouble === "" ? footLine(look, intervalMs) : [toned("bad", escaped(trouble))];
      const screen = statusScreen({ look, pace, style, rows: rows - 2, mostApps });
      return [...screen, [], foot].slice(-rows);
    },
  });
}

function footLine({ status }: Look, intervalMs: number): Line {
  return [toned("faint", `${status.timestamp.slice(11, 19)} UTC, every ${intervalMs / 1000} s; q ends`)];
}

/** For logs and pipes: one line per look, until it is ended or nobody reads on. */
async function printLooks(client: ControlClient, first: Look, intervalMs: number, json: boolean): Promise<void> {
  let look = first;
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  process.stdout.once("error", end);
  process.stdout.write(json ? jsonLine(look.status) : `${escaped(statusLine(look, paceOf(undefined, look)))}\n`);
  while (!isOver) {
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
    if (isOver) return;
    try {
      const next = await takeLook(client);
      process.stdout.write(json ? jsonLine(next.status) : `${escaped(statusLine(next, paceOf(look, next)))}\n`);
      look = next;
    } catch (error) {
      // It may be restarting; who watches wants to know that, and to see it come back.
      if (!(error instanceof Failure)) throw error;
      process.stderr.write(`tollgate: ${error.message}\n`);
    }
  }
}
