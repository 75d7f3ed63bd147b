/** A request as an access log describes it, and the rules that determine its app. */
import { DEFAULT_APP } from "../core/identity.js";

export const LOG_FIELDS = [
  "time",
  "method",
  "path",
  "app",
  "user",
  "request_bytes",
  "response_bytes",
  "duration",
] as const;
export type LogField = (typeof LOG_FIELDS)[number];

/** The name of a field in the log, and for a duration its unit. */
export interface FieldName {
  name: string;
  unitMs?: number | undefined;
}

/** Names given by the operator. */
export type FieldNames = Partial<Record<LogField, FieldName>>;

/** The contents of a line. Parsers reuse one object for all lines. */
export interface LogLine {
  /** Milliseconds since 1970: start of the request or, with `atEnd`, its end. */
  timeMs: number;
  /** The time has whole seconds only. */
  coarse: boolean;
  atEnd: boolean;
  method: string;
  path: string;
  /** Empty if unknown. */
  user: string;
  requestBytes: number;
  responseBytes: number;
  /** 0 if unknown. */
  durationMs: number;
  /** Another field by its name or number; empty if there is none. */
  field(name: string): string;
}

/** Fills `line`; returns the problem, or an empty string. */
export type LineParser = (text: string, line: LogLine) => string;

/** A request to replay. */
export interface LoggedRequest {
  /** Milliseconds since 1970. */
  at: number;
  coarse: boolean;
  /** The line number, which orders requests of the same time. */
  order: number;
  app: string;
  method: string;
  requestBytes: number;
  responseBytes: number;
  durationMs: number;
}

/** Where to find the app. The first rule that finds one decides. */
export type AppRule =
  | { from: "user" }
  | { from: "field"; name: string }
  | { from: "path"; prefix: string; app: string }
  | { from: "constant"; app: string };

export function emptyLine(): LogLine {
  return {
    timeMs: 0,
    coarse: false,
    atEnd: false,
    method: "",
    path: "",
    user: "",
    requestBytes: 0,
    responseBytes: 0,
    durationMs: 0,
    field: () => "",
  };
}

export function requestOf(line: LogLine, rules: readonly AppRule[], order: number): LoggedRequest {
  const { timeMs, coarse, atEnd, durationMs, method, requestBytes, responseBytes } = line;
  return {
    at: atEnd ? timeMs - durationMs : timeMs,
    // A start computed from a coarse end is not a whole second, so it is not spread over that second.
    coarse: coarse && (!atEnd || durationMs === 0),
    order,
    app: appOf(line, rules),
    method,
    requestBytes,
    responseBytes,
    durationMs,
  };
}

function appOf(line: LogLine, rules: readonly AppRule[]): string {
  for (const rule of rules) {
    const app = appByRule(line, rule);
    if (app !== "" && app !== "-") return app;
  }
  return DEFAULT_APP;
}

function appByRule(line: LogLine, rule: AppRule): string {
  if (rule.from === "user") return line.user;
  if (rule.from === "field") return line.field(rule.name);
  return rule.from === "constant" || line.path.startsWith(rule.prefix) ? rule.app : "";
}
