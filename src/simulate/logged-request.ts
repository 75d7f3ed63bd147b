/** A request as an access log describes it, and the rules that determine its app. */
import { DEFAULT_APP } from "../core/identity.js";
import { type LogTime, readMethod, readNumber } from "./log-values.js";

/** The fields of a request, with their names in JSON logs, in the order to try. */
export const LOG_FIELDS = {
  time: "start_time event.start time timestamp @timestamp ts time_iso8601 time_local msec",
  method: "method request_method req.method http.request.method verb",
  path: "path uri request_uri req.url url.path url.original url",
  app: "app_id app x_app_id req.headers.x-app-id labels.app_id",
  user: "user remote_user user.name user_id",
  address: "client_ip remote_addr remote_address client.ip source.ip downstream_remote_address remoteAddress",
  request_bytes:
    "request_bytes bytes_received http.request.body.bytes http.request.bytes req.headers.content-length request_length",
  response_bytes:
    "response_bytes bytes_sent body_bytes_sent http.response.body.bytes http.response.bytes " +
    "res.headers.content-length bytes",
  duration: "duration_ms duration responseTime latency_ms elapsed_ms request_time event.duration",
};
export type LogField = keyof typeof LOG_FIELDS;

/** The name of a field in the log, and for a duration its unit. */
export interface FieldName {
  name: string;
  unitMs?: number | undefined;
}

/** Names given by the operator. */
export type FieldNames = Partial<Record<LogField, FieldName>>;

/** The contents of a line, before its values are checked. */
export interface LogLine {
  /** Start of the request or, with `atEnd`, its end. */
  time: LogTime;
  atEnd: boolean;
  method: string;
  path: string;
  /** Empty if unknown. */
  user: string;
  /** Of the client; empty if unknown. */
  address: string;
  requestBytes: unknown;
  responseBytes: unknown;
  duration: unknown;
  /** Unit of the duration. */
  unitMs: number;
  /** Another field by its name or number; empty if the line does not have it. */
  field(name: string): string;
}

/** Returns why the line cannot be read, if it cannot. */
export type LineParser = (text: string) => LogLine | string;

/** A request to replay. */
export interface LoggedRequest {
  /** Milliseconds since 1970. */
  at: number;
  /** The time has whole seconds only. */
  coarse: boolean;
  /** The line number, which orders requests of the same time. */
  order: number;
  app: string;
  method: string;
  /** For limits; unset unless they are asked for. */
  path?: string;
  user?: string;
  address?: string;
  requestBytes: number;
  responseBytes: number;
  /** 0 if unknown. */
  durationMs: number;
}

/** Where to find the app. The first rule that finds one decides. */
export type AppRule =
  | { from: "user" }
  | { from: "field"; name: string }
  | { from: "path"; prefix: string; app: string }
  | { from: "constant"; app: string };

/** Returns why the line is invalid, if it is. */
export function requestOf(
  line: LogLine,
  rules: readonly AppRule[],
  order: number,
  hasLimits = false,
): LoggedRequest | string {
  const { time, atEnd } = line;
  const method = readMethod(line.method);
  const [requestBytes, responseBytes] = [readNumber(line.requestBytes), readNumber(line.responseBytes)];
  const durationMs = readNumber(line.duration) * line.unitMs;
  if (Number.isNaN(time.ms)) return "the time is invalid";
  if (method === undefined) return "the method of the request is invalid";
  if (!Number.isInteger(requestBytes) || !Number.isInteger(responseBytes)) return "a size is not an integer";
  if (Number.isNaN(durationMs)) return "the duration is not a number";
  return {
    at: atEnd ? time.ms - durationMs : time.ms,
    // A start computed from a coarse end is not a whole second, so it is not spread over that second.
    coarse: time.coarse && (!atEnd || durationMs === 0),
    order,
    app: rules.map((rule) => appByRule(line, rule)).find((app) => app !== "" && app !== "-") ?? DEFAULT_APP,
    method,
    ...(hasLimits ? attributesOf(line) : {}),
    requestBytes,
    responseBytes,
    durationMs,
  };
}

/** A text cut from a line would keep a whole chunk of the log in memory. */
const copied = (text: string) => Buffer.from(text, "latin1").toString("latin1");

function attributesOf({ path, user, address }: LogLine) {
  return { path: copied(path), user: user === "-" ? "" : copied(user), address: copied(address) };
}

function appByRule(line: LogLine, rule: AppRule): string {
  if (rule.from === "user") return line.user;
  if (rule.from === "field") return line.field(rule.name);
  return rule.from === "constant" || line.path.startsWith(rule.prefix) ? rule.app : "";
}
