/** Parser for logs with one JSON object per line. Knows the names of nginx, Envoy, pino and the Elastic Common Schema. */
import type { TimeReader } from "./log-times.js";
import { readDuration, readMethod, readSize } from "./log-values.js";
import {
  type FieldName,
  type FieldNames,
  type LineParser,
  LOG_FIELDS,
  type LogField,
  type LogLine,
} from "./logged-request.js";

const SECOND_MS = 1000;
const NANOSECOND_MS = 1e-6;

const plain = (...names: string[]): FieldName[] => names.map((name) => ({ name }));

/** The names to try, in this order, unless the operator gives one. */
const KNOWN: Record<LogField, FieldName[]> = {
  time: plain(
    "start_time",
    "event.start",
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "time_iso8601",
    "time_local",
    "msec",
  ),
  method: plain("method", "request_method", "req.method", "http.request.method", "verb"),
  path: plain("path", "uri", "request_uri", "req.url", "url.path", "url.original", "url"),
  app: plain("app_id", "app", "x_app_id", "req.headers.x-app-id", "labels.app_id"),
  user: plain("user", "remote_user", "user.name", "user_id"),
  request_bytes: plain(
    "request_bytes",
    "bytes_received",
    "http.request.body.bytes",
    "http.request.bytes",
    "req.headers.content-length",
    "request_length",
  ),
  response_bytes: plain(
    "response_bytes",
    "bytes_sent",
    "body_bytes_sent",
    "http.response.body.bytes",
    "http.response.bytes",
    "res.headers.content-length",
    "bytes",
  ),
  duration: [
    ...plain("duration_ms", "duration", "responseTime", "latency_ms", "elapsed_ms"),
    { name: "request_time", unitMs: SECOND_MS },
    { name: "event.duration", unitMs: NANOSECOND_MS },
  ],
};

type Values = Record<string, unknown>;

export function createJsonParser(time: TimeReader, given: FieldNames): LineParser {
  const find = Object.fromEntries(
    LOG_FIELDS.map((field) => [field, createFinder(given[field] ? [given[field]] : KNOWN[field])]),
  ) as Record<LogField, Finder>;
  let values: Values = {};
  const field = (name: string) => (name === "app" ? text(find.app(values)) : text(valueAt(values, name)));

  function readRequest(line: LogLine): string {
    const given = find.method(values);
    // nginx may log method, path and protocol as one field.
    const [first = "", path = "", protocol] = text(values.request).split(" ");
    if (given === undefined && protocol === undefined) return "no method";
    const method = readMethod(given === undefined ? first : text(given));
    if (method === undefined) return "the method is invalid";
    line.method = method;
    line.path = text(find.path(values)) || path;
    return "";
  }

  return (json, line) => {
    const read = parse(json);
    if (read === undefined) return "not a JSON object";
    values = read;
    line.timeMs = time.any(find.time(values));
    if (Number.isNaN(line.timeMs)) return find.time(values) === undefined ? "no time" : "the time is invalid";
    line.coarse = time.coarse;
    const problem = readRequest(line);
    if (problem !== "") return problem;
    line.requestBytes = amount(find.request_bytes(values));
    line.responseBytes = amount(find.response_bytes(values));
    if (line.requestBytes < 0 || line.responseBytes < 0) return "a size is not an integer";
    const took = find.duration(values);
    line.durationMs = duration(took, find.duration.last().unitMs ?? 1);
    if (line.durationMs < 0) return "the duration is not a number";
    // A line has the time of the end, unless the name of the field says otherwise.
    line.atEnd = !find.time.last().name.includes("start");
    line.user = text(find.user(values));
    line.field = field;
    return "";
  };
}

interface Finder {
  (values: Values): unknown;
  /** The name under which the value was found. */
  last(): FieldName;
}

/** Tries the name of the previous line first, then the others. */
function createFinder(candidates: FieldName[]): Finder {
  let last = candidates[0]!;
  const find = (values: Values) => {
    const value = valueAt(values, last.name);
    if (value !== undefined && value !== null) return value;
    for (const candidate of candidates) {
      const other = valueAt(values, candidate.name);
      if (other === undefined || other === null) continue;
      last = candidate;
      return other;
    }
    return undefined;
  };
  return Object.assign(find, { last: () => last });
}

/** A property whose name contains the dots takes precedence over nested ones. */
function valueAt(values: Values, name: string): unknown {
  if (Object.hasOwn(values, name)) return values[name];
  if (!name.includes(".")) return undefined;
  let value: unknown = values;
  for (const part of name.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Values)[part];
  }
  return value;
}

function parse(json: string): Values | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Values) : undefined;
  } catch {
    return undefined;
  }
}

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function amount(value: unknown): number {
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? value : -1;
  return value === undefined ? 0 : typeof value === "string" ? readSize(value) : -1;
}

function duration(value: unknown, unitMs: number): number {
  if (typeof value === "number") return value >= 0 && value < 1e15 ? value * unitMs : -1;
  return value === undefined ? 0 : typeof value === "string" ? readDuration(value, unitMs) : -1;
}
