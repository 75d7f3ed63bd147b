/** Reads logs of one JSON object per line: those of nginx, Envoy, pino and the Elastic Common Schema without being told. */
import { isMethod, methodOf, readAmount, readDuration } from "./log-fields.js";
import type { TimeReader } from "./log-times.js";
import type { LineParser, LogLine } from "./logged-request.js";

export const JSON_FIELDS = [
  "time",
  "method",
  "path",
  "app",
  "user",
  "request_bytes",
  "response_bytes",
  "duration",
] as const;
export type JsonField = (typeof JSON_FIELDS)[number];

/** A field's name, with dots where it is nested, and for a duration the unit it counts in. */
export interface FieldName {
  name: string;
  unitMs?: number | undefined;
}

/** What operators say of names that nobody could guess. */
export type JsonFieldNames = Partial<Record<JsonField, FieldName>>;

const SECOND_MS = 1000;
const NANOSECOND_MS = 1e-6;

/** The names that are tried, in this order, where the operator gave none. */
const KNOWN: Record<JsonField, FieldName[]> = {
  time: names(
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
  method: names("method", "request_method", "req.method", "http.request.method", "verb"),
  path: names("path", "uri", "request_uri", "req.url", "url.path", "url.original", "url"),
  app: names("app_id", "app", "x_app_id", "req.headers.x-app-id", "labels.app_id"),
  user: names("user", "remote_user", "user.name", "user_id"),
  request_bytes: names(
    ...["request_bytes", "bytes_received", "http.request.body.bytes", "http.request.bytes"],
    ...["req.headers.content-length", "request_length"],
  ),
  response_bytes: names(
    ...["response_bytes", "bytes_sent", "body_bytes_sent", "http.response.body.bytes", "http.response.bytes"],
    ...["res.headers.content-length", "bytes"],
  ),
  duration: [
    ...names("duration_ms", "duration", "responseTime", "latency_ms", "elapsed_ms").map(({ name }) => ({
      name,
      unitMs: 1,
    })),
    { name: "request_time", unitMs: SECOND_MS },
    { name: "event.duration", unitMs: NANOSECOND_MS },
  ],
};

function names(...list: string[]): FieldName[] {
  return list.map((name) => ({ name }));
}

type Values = Record<string, unknown>;

export function createJsonParser(time: TimeReader, given: JsonFieldNames = {}): LineParser {
  const find = Object.fromEntries(
    JSON_FIELDS.map((field) => [field, createFinder(given[field] ? [given[field]] : KNOWN[field])]),
  ) as Record<JsonField, Finder>;
  let values: Values = {};
  const field = (name: string) => (name === "app" ? text(find.app(values)) : text(valueAt(values, name)));

  function readRequest(line: LogLine): string {
    const method = find.method(values);
    line.path = text(find.path(values));
    if (method !== undefined) {
      if (typeof method !== "string" || !isMethod(method)) return "the method is none";
      line.method = methodOf(method);
      return "";
    }
    // nginx's own name for all of it.
    const [first = "", path, protocol] = text(values.request).split(" ");
    if (protocol === undefined || path === undefined || !isMethod(first)) return "there is no method";
    line.method = methodOf(first);
    if (line.path === "") line.path = path;
    return "";
  }

  return (json, line) => {
    const read = parse(json);
    if (read === undefined) return "it is no JSON object";
    values = read;
    line.timeMs = time.any(find.time(values));
    if (Number.isNaN(line.timeMs)) return find.time(values) === undefined ? "there is no time" : "the time is none";
    line.coarse = time.coarse;
    const wrong = readRequest(line);
    if (wrong !== "") return wrong;
    line.requestBytes = amount(find.request_bytes(values));
    line.responseBytes = amount(find.response_bytes(values));
    if (line.requestBytes < 0 || line.responseBytes < 0) return "a size is no whole number";
    const took = find.duration(values);
    line.durationMs = duration(took, find.duration.last().unitMs ?? 1);
    if (line.durationMs < 0) return "the duration is no number";
    // A line is written when the exchange has ended, and has that time unless it says otherwise.
    line.atEnd = !find.time.last().name.includes("start");
    line.user = text(find.user(values));
    line.field = field;
    return "";
  };
}

interface Finder {
  (values: Values): unknown;
  /** The name under which it was found. */
  last(): FieldName;
}

/** Looks under the name that had it in the line before, and only then under the others. */
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

function valueAt(values: Values, name: string): unknown {
  if (Object.hasOwn(values, name)) return values[name];
  let dot = name.indexOf(".");
  if (dot < 0) return undefined;
  let value: unknown = values;
  let from = 0;
  for (;;) {
    const part = dot < 0 ? name.slice(from) : name.slice(from, dot);
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Values)[part];
    if (dot < 0) return value;
    from = dot + 1;
    dot = name.indexOf(".", from);
  }
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
  return value === undefined ? 0 : typeof value === "string" ? readAmount(value) : -1;
}

function duration(value: unknown, unitMs: number): number {
  if (typeof value === "number") return value >= 0 && value < 1e15 ? value * unitMs : -1;
  return value === undefined ? 0 : typeof value === "string" ? readDuration(value, unitMs) : -1;
}
