/** Parses the options --app-from and --field of `tollgate simulate`. */
import { quoted } from "../../config/problem.js";
import { isIdentifier } from "../../core/platform.js";
import { type AppRule, type FieldNames, LOG_FIELDS, type LogField } from "../../simulate/logged-request.js";
import { UsageError } from "../command.js";

const UNITS_MS: Record<string, number> = { ns: 1e-6, us: 1e-3, ms: 1, s: 1000 };

/** user · field=NAME · path=PREFIX:APP · app=NAME */
export function readAppRule(text: string): AppRule {
  const wrong = (reason: string) => new UsageError(`--app-from: ${quoted(text)} ${reason}`);
  if (text === "user") return { from: "user" };
  const [kind, rest] = cut(text, "=");
  const unknown = () => wrong("is not one of user, field=NAME, path=PREFIX:APP, app=NAME");
  if (rest === "") throw unknown();
  if (kind === "field") return { from: "field", name: rest };
  if (kind === "app") return { from: "constant", app: appName(rest, wrong) };
  if (kind !== "path") throw unknown();
  const [prefix, app] = cut(rest, ":");
  if (!prefix.startsWith("/"))
    throw wrong("must contain a path that begins with / and an app: path=/video/:video-service");
  return { from: "path", prefix, app: appName(app, wrong) };
}

function appName(app: string, wrong: (reason: string) => UsageError): string {
  if (isIdentifier(app)) return app;
  throw wrong("has no valid app: 1 to 128 of A-Z a-z 0-9 . _ : -");
}

/** `--field duration=took:us` and the like. */
export function readFields(texts: string[]): FieldNames {
  const fields: FieldNames = {};
  for (const text of texts) {
    const wrong = (reason: string) => new UsageError(`--field: ${quoted(text)} ${reason}`);
    const [what, where] = cut(text, "=");
    if (!Object.hasOwn(LOG_FIELDS, what) || where === "") {
      throw wrong(`is not W=NAME with W one of ${Object.keys(LOG_FIELDS).join(", ")}`);
    }
    fields[what as LogField] = what === "duration" ? durationField(where, wrong) : { name: where };
  }
  return fields;
}

function durationField(where: string, wrong: (reason: string) => UsageError) {
  const [name, unit] = cut(where, ":");
  if (unit === "") return { name };
  const unitMs = UNITS_MS[unit];
  if (unitMs === undefined) throw wrong(`has an unknown unit; expected ${Object.keys(UNITS_MS).join(", ")}`);
  return { name, unitMs };
}

/** The text before and after the first mark; the second is empty without a mark. */
function cut(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}
