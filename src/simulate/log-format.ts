/** The log formats, their parsers, and detection of the format from the first lines. */
import { createJsonParser } from "./json-log.js";
import { type AppRule, emptyLine, type FieldNames, type LineParser } from "./logged-request.js";
import { createCombinedParser, parseEnvoyLine } from "./text-log.js";

export const FORMATS = ["combined", "envoy", "json"] as const;
export type LogFormat = (typeof FORMATS)[number];

/** The number of lines used for detection. */
export const DETECTION_LINES = 20;

export function createParser(format: LogFormat, fields: FieldNames): LineParser {
  if (format === "json") return createJsonParser(fields);
  return format === "envoy" ? parseEnvoyLine : createCombinedParser(fields);
}

/** The rules to find the app if the operator gives none. */
export function defaultRules(format: LogFormat, fields: FieldNames): AppRule[] {
  if (format === "json") return [{ from: "field", name: "app" }];
  return fields.app === undefined ? [] : [{ from: "field", name: fields.app.name }];
}

/** The format of most lines; undefined if no format can read any line. */
export function detectFormat(lines: string[], fields: FieldNames): LogFormat | undefined {
  const counts = FORMATS.map((format) => {
    const parse = createParser(format, fields);
    const line = emptyLine();
    return { format, readable: lines.filter((text) => parse(text, line) === "").length };
  });
  const best = counts.reduce((a, b) => (b.readable > a.readable ? b : a));
  return best.readable > 0 ? best.format : undefined;
}
