/** Which format a log has, told or found out from its first lines, and the parser for it. */
import { createCombinedParser, type ExtraFields } from "./combined-log.js";
import { createEnvoyParser } from "./envoy-log.js";
import { createJsonParser, type JsonFieldNames } from "./json-log.js";
import { createTimeReader } from "./log-times.js";
import { type AppRule, emptyLine, type LineParser } from "./logged-request.js";

export const FORMATS = ["combined", "envoy", "json"] as const;
export type LogFormat = (typeof FORMATS)[number];

/** So many lines are looked at to find the format out. */
export const LINES_TO_TELL = 20;

export interface FormatOptions {
  fields: JsonFieldNames;
}

export function createParser(format: LogFormat, { fields }: FormatOptions): LineParser {
  const time = createTimeReader();
  if (format === "json") return createJsonParser(time, fields);
  if (format === "envoy") return createEnvoyParser(time);
  return createCombinedParser(time, extraFields(fields));
}

function extraFields({ request_bytes, response_bytes, duration }: JsonFieldNames): ExtraFields {
  return {
    requestBytes: request_bytes?.name,
    responseBytes: response_bytes?.name,
    // nginx writes $request_time in seconds.
    duration: duration && { name: duration.name, unitMs: duration.unitMs ?? 1000 },
  };
}

/** Where the app stands if nobody says: JSON lines may name it. */
export function defaultRules(format: LogFormat, { fields }: FormatOptions): AppRule[] {
  if (format === "json") return [{ from: "field", name: "app" }];
  return fields.app === undefined ? [] : [{ from: "field", name: fields.app.name }];
}

/** The format that most of the lines have; undefined where none of them can be read in any. */
export function tellFormat(lines: string[], options: FormatOptions): LogFormat | undefined {
  const counts = FORMATS.map((format) => {
    const parse = createParser(format, options);
    const line = emptyLine();
    return { format, readable: lines.filter((text) => parse(text, line) === "").length };
  });
  const best = counts.reduce((a, b) => (b.readable > a.readable ? b : a));
  return best.readable > 0 ? best.format : undefined;
}
