/** Parser for logs with one JSON object per line. Knows the names of nginx, Envoy, pino and the Elastic Common Schema. */
import { readAnyTime } from "./log-times.js";
import { readDuration, readMethod, readSize } from "./log-values.js";
import type { FieldName, FieldNames, LineParser, LogField, LogLine } from "./logged-request.js";

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

export function createJsonParser(given: FieldNames): LineParser {
  let values: Values = {};

  /** The first of the possible fields that has a value. */
  function find(field: LogField): { value: unknown; name: string; unitMs?: number | undefined } {
    for (const one of given[field] === undefined ? KNOWN[field] : [given[field]]) {
      const value = valueAt(values, one.name);
      if (value !== undefined && value !== null) return { value, ...one };
    }
    return { value: undefined, name: "" };
  }

  function readRequest(line: LogLine): string {
    const { value } = find("method");
    // nginx may log method, path and protocol as one field.
    const [first = "", path = "", protocol] = text(values.request).split(" ");
    if (value === undefined && protocol === undefined) return "no method";
    const method = readMethod(value === undefined ? first : text(value));
    if (method === undefined) return "the method is invalid";
    line.method = method;
    line.path = text(find("path").value) || path;
    return "";
  }

  return (json, line) => {
    const read = parse(json);
    if (read === undefined) return "not a JSON object";
    values = read;
    const time = find("time");
    const { ms, coarse } = readAnyTime(time.value);
    if (Number.isNaN(ms)) return time.value === undefined ? "no time" : "the time is invalid";
    line.timeMs = ms;
    line.coarse = coarse;
    // A line has the time of the end, unless the name of the field says otherwise.
    line.atEnd = !time.name.includes("start");
    const problem = readRequest(line);
    if (problem !== "") return problem;
    line.requestBytes = amount(find("request_bytes").value);
    line.responseBytes = amount(find("response_bytes").value);
    if (line.requestBytes < 0 || line.responseBytes < 0) return "a size is not an integer";
    const took = find("duration");
    line.durationMs = duration(took.value, took.unitMs ?? 1);
    if (line.durationMs < 0) return "the duration is not a number";
    line.user = text(find("user").value);
    line.field = (name) => text(name === "app" ? find("app").value : valueAt(values, name));
    return "";
  };
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
