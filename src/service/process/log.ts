/** The structured log of a process: JSON lines without secrets and control characters. */
import { type DestinationStream, destination as openDestination, pino, stdTimeFunctions } from "pino";
import { printable } from "../../shared/printable.js";

export type ProcessLog = ReturnType<typeof createLog>;

export interface LogOptions {
  level: string;
  node: string;
  /** Default: standard output, written synchronously, so that an exiting process loses no line. */
  destination?: DestinationStream;
}

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

export function createLog({ level, node, destination }: LogOptions) {
  const options = {
    level,
    base: { node },
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }), log: printableFields },
    redact: { paths: secretFields.flatMap((name) => [name, `*.${name}`]), censor: "(hidden)" },
    serializers: { err: describeError },
  };
  return pino(options, destination ?? openDestination({ dest: 1, sync: true }));
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
