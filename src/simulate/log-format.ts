/** The log formats, their readers, and detection of the format from the first lines. */
import { createJsonParser } from "./json-log.js";
import { type AppRule, type FieldNames, type LineParser, type LoggedRequest, requestOf } from "./logged-request.js";
import { createCombinedParser, parseEnvoyLine } from "./text-log.js";

export const FORMATS = ["combined", "envoy", "json"] as const;
export type LogFormat = (typeof FORMATS)[number];

/** The number of lines used for detection. */
export const DETECTION_LINES = 20;

export function createParser(format: LogFormat, fields: FieldNames): LineParser {
  if (format === "json") return createJsonParser(fields);
  return format === "envoy" ? parseEnvoyLine : createCombinedParser(fields);
}

/** Returns the request of a line, or why it cannot be read. */
export type LineReader = (text: string, order: number) => LoggedRequest | string;

export interface ReaderOptions {
  fields: FieldNames;
  /** How to find the app. Undefined: the default of the format. */
  rules?: AppRule[] | undefined;
  /** Requests have what limits depend on. */
  hasLimits?: boolean;
}

export function createReader(format: LogFormat, { fields, rules, hasLimits = false }: ReaderOptions): LineReader {
  const parse = createParser(format, fields);
  const appField = format === "json" ? "app" : fields.app?.name;
  const byDefault: AppRule[] = appField === undefined ? [] : [{ from: "field", name: appField }];
  return (text, order) => {
    const line = parse(text);
    return typeof line === "string" ? line : requestOf(line, rules ?? byDefault, order, hasLimits);
  };
}

/** The format of most lines; undefined if no format can read any line. */
export function detectFormat(lines: string[], fields: FieldNames): LogFormat | undefined {
  const counts = FORMATS.map((format) => {
    const read = createReader(format, { fields });
    return { format, readable: lines.filter((text) => typeof read(text, 0) !== "string").length };
  });
  const best = counts.reduce((a, b) => (b.readable > a.readable ? b : a));
  return best.readable > 0 ? best.format : undefined;
}
