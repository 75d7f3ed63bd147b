/** A request as an access log tells of it, and how the app that it belongs to is found. */
import { DEFAULT_APP } from "../core/identity.js";

/** What a line says. Parsers fill one of these again and again; nobody keeps it. */
export interface LogLine {
  /** Milliseconds since 1970: when it came, or, where that is what the log has, when it ended. */
  timeMs: number;
  /** The log has whole seconds only. */
  coarse: boolean;
  /** `timeMs` is when it ended. */
  atEnd: boolean;
  method: string;
  path: string;
  /** Empty where there is none. */
  user: string;
  requestBytes: number;
  responseBytes: number;
  /** 0 where the log has none. */
  durationMs: number;
  /** A further field by its name or number; empty where there is none. */
  field(name: string): string;
}

/** Reads a line. Answers what is wrong with it; empty when nothing is. */
export type LineParser = (text: string, line: LogLine) => string;

/** A request to replay. */
export interface LoggedRequest {
  /** Milliseconds since 1970. */
  at: number;
  coarse: boolean;
  /** Its place in the log, which decides among requests of the same moment. */
  order: number;
  app: string;
  method: string;
  requestBytes: number;
  responseBytes: number;
  durationMs: number;
}

/** Where the app stands: the first rule that finds one decides. */
export type AppRule =
  | { from: "user" }
  | { from: "field"; name: string }
  | { from: "path"; prefix: string; app: string }
  | { from: "nowhere"; app: string };

export function emptyLine(): LogLine {
  return {
    ...{ timeMs: 0, coarse: false, atEnd: false, method: "", path: "", user: "" },
    ...{ requestBytes: 0, responseBytes: 0, durationMs: 0, field: () => "" },
  };
}

export function requestOf(line: LogLine, rules: readonly AppRule[], order: number): LoggedRequest {
  const { timeMs, coarse, atEnd, durationMs } = line;
  return {
    at: atEnd ? timeMs - durationMs : timeMs,
    // What began some milliseconds before a whole second is known no better, but is not one of that second's crowd.
    coarse: coarse && (!atEnd || durationMs === 0),
    order,
    app: appOf(line, rules),
    method: line.method,
    requestBytes: line.requestBytes,
    responseBytes: line.responseBytes,
    durationMs,
  };
}

function appOf(line: LogLine, rules: readonly AppRule[]): string {
  for (const rule of rules) {
    const app = found(line, rule);
    if (app !== "" && app !== "-") return app;
  }
  return DEFAULT_APP;
}

function found(line: LogLine, rule: AppRule): string {
  switch (rule.from) {
    case "user":
      return line.user;
    case "field":
      return line.field(rule.name);
    case "path":
      return line.path.startsWith(rule.prefix) ? rule.app : "";
    case "nowhere":
      return rule.app;
  }
}
