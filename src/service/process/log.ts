/** The structured log of a process: JSON lines without secrets and control characters, limited per kind and second. */
import { type DestinationStream, pino, stdTimeFunctions } from "pino";
import { type Clock, systemClock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";
import { printable } from "../../shared/printable.js";
import { createThrottle } from "../../shared/throttle.js";
import { createLogWriter } from "./log-writer.js";

export type ProcessLog = ReturnType<typeof createLog>;

export interface LogOptions {
  level: string;
  node: string;
  /** Default: standard output. */
  destination?: DestinationStream;
  /** Called for each line that could not be written. */
  lost?: () => void;
  clock?: Pick<Clock, "after">;
}

/**
 * Lines per second with the same level and message. Clients, data planes and unauthenticated peers cause many of them, so
 * this holds for all lines: a flood can neither fill a disk nor hide other lines.
 */
const LINES_PER_SECOND = 10;

const levels = ["debug", "info", "warn", "error"] as const;
type Level = (typeof levels)[number];

/** Fields that are never logged, at the top level or one level below. */
const secretFields = [
  "authorization",
  "password",
  "token",
  "admin_token",
  "plane_token",
  "operators",
  "viewers",
  "planes",
  "api_key",
  "api_keys",
  "store",
];

export function createLog({ level, node, destination, lost, clock = systemClock }: LogOptions) {
  const options = {
    level,
    base: { node },
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }), log: printableFields },
    redact: { paths: secretFields.flatMap((name) => [name, `*.${name}`]), censor: "(hidden)" },
    serializers: { err: describeError },
  };
  const recovered = (count: number) => lines.warn({ lost: count }, "log lines could not be written");
  const lines = pino(options, destination ?? createLogWriter({ lost, recovered }));
  const throttle = createThrottle({
    clock,
    perSecond: () => LINES_PER_SECOND,
    suppressed(kind, count) {
      const [, name = "info", message] = /^(\w+) (.*)$/s.exec(kind) ?? [];
      lines[name as Level]({ kind: message, suppressed: count }, "more lines of this kind in the same second");
    },
  });
  const at = (name: Level) => (fields: Record<string, unknown>, message: string) => {
    if (lines.isLevelEnabled(name) && throttle.admits(`${name} ${message}`)) lines[name](fields, message);
  };
  const log: Log = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  return Object.assign(log, {
    unlimited: lines as Log,
    setLevel(changed: string): void {
      lines.level = changed;
    },
    /** Logs the pending counts of lines that were left out. */
    flush: throttle.flush,
  });
}

/** JSON escapes ASCII control characters only; terminals also interpret others. */
function printableFields(fields: Record<string, unknown>): Record<string, unknown> {
  const shown = (value: unknown) => (typeof value === "string" ? printable(value) : value);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, shown(value)]));
}

function describeError(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: printable(String(error)) };
  const { name, message, stack = "" } = error;
  // Only the frames: the stack begins with the message, which may have several lines.
  const frames = stack.split("\n").filter((line) => /^\s+at /.test(line));
  return { name, message: printable(message), at: frames.slice(0, 8).map((line) => printable(line.trim())) };
}
