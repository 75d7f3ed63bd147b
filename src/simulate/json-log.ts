/** Parser for logs with one JSON object per line. Knows the names of nginx, Envoy, pino and the Elastic Common Schema. */
import { readAnyTime } from "./log-values.js";
import { type FieldName, type FieldNames, type LineParser, LOG_FIELDS, type LogField } from "./logged-request.js";

const SECOND_MS = 1000;
const NANOSECOND_MS = 1e-6;

/** Units of known durations that are not in milliseconds. */
const UNITS_MS: Record<string, number> = { request_time: SECOND_MS, "event.duration": NANOSECOND_MS };

type Values = Record<string, unknown>;

export function createJsonParser(given: FieldNames): LineParser {
  const namesOf = (field: LogField): FieldName[] =>
    given[field] === undefined
      ? LOG_FIELDS[field].split(" ").map((name) => ({ name, unitMs: UNITS_MS[name] }))
      : [given[field]];
  const names = new Map(Object.keys(LOG_FIELDS).map((field) => [field, namesOf(field as LogField)]));

  return (json) => {
    const values = parse(json);
    if (values === undefined) return "not a JSON object";

    /** The first of the possible fields that has a value. */
    const find = (field: LogField): { value?: unknown; name: string; unitMs?: number | undefined } => {
      for (const one of names.get(field)!) {
        const value = valueAt(values, one.name);
        if (value !== undefined && value !== null) return { value, ...one };
      }
      return { name: "" };
    };

    const time = find("time");
    if (time.value === undefined) return "no time";
    const { value: method } = find("method");
    // nginx may log method, path and protocol as one field.
    const [first = "", path = "", protocol] = text(values.request).split(" ");
    if (method === undefined && protocol === undefined) return "no method";
    const { value: duration, unitMs = 1 } = find("duration");
    return {
      time: readAnyTime(time.value),
      // A line has the time of the end, unless the name of the field says otherwise.
      atEnd: !time.name.includes("start"),
      method: method === undefined ? first : text(method),
      path: text(find("path").value) || path,
      user: text(find("user").value),
      address: text(find("address").value),
      requestBytes: find("request_bytes").value,
      responseBytes: find("response_bytes").value,
      duration,
      unitMs,
      field: (name) => text(name === "app" ? find("app").value : valueAt(values, name)),
    };
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
