/** Copies of values for logs and replies: secrets hidden, strings printable, size bounded. */
import { secretOptions } from "../../config/problem.js";
import { printable } from "../../shared/printable.js";

const SECRET = /(^|_)(token|password|secret|key|api_keys)$|^(authorization|store|operators|viewers|planes)$/i;
const MOST_LEVELS = 6;
const MOST_ITEMS = 50;
const HIDDEN = "(hidden)";

/** A copy that is fit for a log line. */
export function redacted(value: unknown, level = 0): unknown {
  if (typeof value === "string") return printable(value);
  if (typeof value !== "object" || value === null) return value;
  if (level === MOST_LEVELS) return "…";
  if (Array.isArray(value)) {
    const items = value.slice(0, MOST_ITEMS).map((item) => redacted(item, level + 1));
    return value.length > MOST_ITEMS ? [...items, `and ${value.length - MOST_ITEMS} more`] : items;
  }
  const entries = Object.entries(value);
  const some = entries
    .slice(0, MOST_ITEMS)
    .map(([name, item]) => [printable(name), SECRET.test(name) ? HIDDEN : redacted(item, level + 1)]);
  const rest = entries.length > MOST_ITEMS ? { "…": `and ${entries.length - MOST_ITEMS} more` } : {};
  return { ...Object.fromEntries(some), ...rest };
}

/** A complete copy of a configuration, only with its secrets hidden. */
export function withoutSecrets(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutSecrets);
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, secretOptions.has(name) ? HIDDEN : withoutSecrets(inner)]),
  );
}
