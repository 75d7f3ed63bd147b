/** Structured logs: one line each, sampled where they would flood, without secrets and without control characters. */
import { type DestinationStream, destination as openDestination, pino, stdTimeFunctions } from "pino";
import type { Decision } from "../../limiter/decision.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";
import { printable } from "../../shared/printable.js";

/** The log of a process. */
export interface ProcessLog extends Log {
  setLevel(level: string): void;
}

export interface LogOptions {
  level: string;
  node: string;
  /** Default: standard output, written at once, so that a process that ends takes no line with it. */
  destination?: DestinationStream;
}

/** Whatever is called so is never written, at the top or one level below. */
const secretFields = [
  "authorization",
  "password",
  "token",
  "admin_token",
  "plane_token",
  "api_key",
  "api_keys",
  "store",
];

export function createLog({ level, node, destination }: LogOptions): ProcessLog {
  const options = {
    level,
    base: { node },
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }), log: printableFields },
    redact: { paths: secretFields.flatMap((name) => [name, `*.${name}`]), censor: "(hidden)" },
    serializers: { err: describeError },
  };
  const log = pino(options, destination ?? openDestination({ dest: 1, sync: true }));
  return Object.assign(log, {
    setLevel(changed: string) {
      log.level = changed;
    },
  });
}

/** JSON escapes what is below a space; terminals also obey some that lie above. */
function printableFields(fields: Record<string, unknown>): Record<string, unknown> {
  const shown: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields))
    shown[name] = typeof value === "string" ? printable(value) : value;
  return shown;
}

function describeError(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: printable(String(error)) };
  const { name, message, stack = "" } = error;
  // The frames without the message, which begins the stack and may have lines of its own.
  const frames = stack.split("\n").filter((line) => /^\s+at /.test(line));
  return { name, message: printable(message), at: frames.slice(0, 8).map((line) => printable(line.trim())) };
}

export interface DecisionLog {
  /** Or let pass on a dry run only. */
  refused(decision: Decision): void;
  slow(decision: Decision, milliseconds: number): void;
  /** Writes what was held back, and stops. */
  close(): void;
}

export interface DecisionLogOptions {
  log: Log;
  /** Lines per second, app and kind; of the others the number is written. */
  perSecond(): number;
  clock?: Clock;
}

interface Flood {
  second: number;
  written: number;
  suppressed: number;
}

/** Ids in it are those of configured apps only, so what it remembers is bounded by the configuration. */
export function createDecisionLog({ log, perSecond, clock = systemClock }: DecisionLogOptions): DecisionLog {
  const floods = new Map<string, Flood>();
  let stopTimer = clock.after(1_000, sweep);

  function write(kind: "refused" | "slow", decision: Decision, extra: Record<string, unknown>): void {
    const { app, code, cost, source, method, remaining, retryAfterMs, allowed } = decision;
    const second = Math.floor(clock.now() / 1000);
    const name = `${kind} ${app}`;
    let flood = floods.get(name);
    if (flood === undefined) {
      flood = { second, written: 0, suppressed: 0 };
      floods.set(name, flood);
    }
    if (flood.second !== second) {
      tellSuppressed(name, flood);
      flood.second = second;
      flood.written = 0;
    }
    if (flood.written >= perSecond()) {
      flood.suppressed++;
      return;
    }
    flood.written++;
    const fields = { app, reason: code, cost, source, method: method.slice(0, 32), remaining, ...extra };
    if (kind === "slow") log.warn(fields, "slow decision");
    else if (allowed) log.info({ ...fields, dry_run: true }, "would be refused");
    else log.info({ ...fields, retry_after_ms: retryAfterMs }, "refused");
  }

  function tellSuppressed(name: string, flood: Flood): void {
    if (flood.suppressed === 0) return;
    const [kind, app] = name.split(" ");
    log.info({ app, kind, suppressed: flood.suppressed }, "more of the same in one second");
    flood.suppressed = 0;
  }

  /** The last second of a flood is told of, too. */
  function sweep(): void {
    stopTimer = clock.after(1_000, sweep);
    const second = Math.floor(clock.now() / 1000);
    for (const [name, flood] of floods) if (flood.second !== second) tellSuppressed(name, flood);
  }

  return {
    refused: (decision) => write("refused", decision, {}),
    slow: (decision, milliseconds) => write("slow", decision, { ms: Math.round(milliseconds) }),
    close() {
      stopTimer();
      for (const [name, flood] of floods) tellSuppressed(name, flood);
    },
  };
}
