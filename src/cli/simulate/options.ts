/** The options of `tollgate simulate` in the words of the replay. */
import { quoted } from "../../config/problem.js";
import { isIdentifier } from "../../core/platform.js";
import { FORMATS, type LogFormat } from "../../simulate/log-format.js";
import { type AppRule, type FieldNames, LOG_FIELDS, type LogField } from "../../simulate/logged-request.js";
import { UsageError } from "../command.js";

const UNITS_MS: Record<string, number> = { ns: 1e-6, us: 1e-3, ms: 1, s: 1000 };

/** `auto` is left to the log itself. */
export function readFormat(text: string): LogFormat | undefined {
  if (text === "auto") return undefined;
  const format = FORMATS.find((name) => name === text);
  if (format !== undefined) return format;
  throw new UsageError(`--format: there is no format ${quoted(text)}; there are auto, ${FORMATS.join(", ")}`);
}

/** user · field=NAME · path=PREFIX:APP · app=NAME */
export function readAppRule(text: string): AppRule {
  const wrong = (reason: string) => new UsageError(`--app-from: ${quoted(text)} ${reason}`);
  if (text === "user") return { from: "user" };
  const [kind, rest] = cut(text, "=");
  if (rest === "") throw wrong("is none of user, field=NAME, path=PREFIX:APP, app=NAME");
  if (kind === "field") return { from: "field", name: rest };
  if (kind === "app") return { from: "constant", app: appName(rest, wrong) };
  if (kind !== "path") throw wrong("is none of user, field=NAME, path=PREFIX:APP, app=NAME");
  const [prefix, app] = cut(rest, ":");
  if (!prefix.startsWith("/"))
    throw wrong("must name a path that begins with /, and an app: path=/video/:video-service");
  return { from: "path", prefix, app: appName(app, wrong) };
}

function appName(app: string, wrong: (reason: string) => UsageError): string {
  if (isIdentifier(app)) return app;
  throw wrong("names no app: 1 to 128 of A-Z a-z 0-9 . _ : -");
}

/** `--field duration=took:us` and the like. */
export function readFields(texts: string[]): FieldNames {
  const fields: FieldNames = {};
  for (const text of texts) {
    const wrong = (reason: string) => new UsageError(`--field: ${quoted(text)} ${reason}`);
    const [what, where] = cut(text, "=");
    const field = LOG_FIELDS.find((name) => name === what);
    if (field === undefined || where === "") {
      throw wrong(`is no WHAT=NAME, where WHAT is one of ${LOG_FIELDS.join(", ")}`);
    }
    fields[field] = field === "duration" ? durationField(where, wrong) : { name: where };
  }
  return fields satisfies Partial<Record<LogField, unknown>>;
}

function durationField(where: string, wrong: (reason: string) => UsageError) {
  const [name, unit] = cut(where, ":");
  if (unit === "") return { name };
  const unitMs = UNITS_MS[unit];
  if (unitMs === undefined) throw wrong(`counts in no unit; there are ${Object.keys(UNITS_MS).join(", ")}`);
  return { name, unitMs };
}

/** Before and after the first mark; without one, all and nothing. */
function cut(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}
